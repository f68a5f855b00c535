"""Where a model looks while it learns: one sentence's attention, kept in the log at every validation."""

from __future__ import annotations

from typing import Any

import torch

from headway.data.padding import pad_rows
from headway.model.decoders import TransformerDecoder
from headway.model.hooks import source_attention
from headway.model.models import EncoderDecoder
from headway.storage.byte_tables import pack
from headway.text.tokenizer import Tokenizers
from headway.text.vocabulary import BOS, EOS

LONGEST = 64  # pieces of either side; a log should stay small


def attending(
    model: EncoderDecoder, tokenizers: Tokenizers, source: list[int], output: str, device: torch.device
) -> dict[str, Any]:
    """The last decoder layer's look at the source, the mean of its heads; a row for each piece that was written."""
    target = tokenizers.target.encode(output)
    if max(len(source), len(target) + 1) > LONGEST or not isinstance(model.decoder, TransformerDecoder):
        return {}
    weights = source_attention(model, pad_rows([source], device), pad_rows([[BOS, *target]], device))
    columns = [tokenizers.source.piece(piece) for piece in source]
    rows = [tokenizers.target.piece(piece) for piece in [*target, EOS]]
    return {"rows": rows, "columns": columns, **pack(weights[0])}
