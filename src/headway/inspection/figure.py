"""The paper's figure with live numbers: every stage on the way to one target piece."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headway.inspection import formulas
from headway.inspection.forward_pass import Reading
from headway.inspection.stages import Stage, Watcher
from headway.model.design import Design
from headway.model.models import EncoderDecoder
from headway.text.tokenizer import Tokenizer, Tokenizers
from headway.text.vocabulary import EOS

SHOWN = 20  # of the vocabulary, the likeliest


@torch.inference_mode()
def inside(
    model: EncoderDecoder, design: Design, reading: Reading, tokenizers: Tokenizers, position: int
) -> dict[str, Any]:
    """The decoder is shown where it writes the piece, the encoder at the source piece that is looked at most then."""
    position %= reading.target.size(1)
    origin = most_seen(reading, position)
    source = [tokenizers.source.piece(piece) for piece in reading.source[0].tolist()]
    written = [tokenizers.target.piece(piece) for piece in reading.inputs[0].tolist()]
    stages: list[Stage] = []
    with ExitStack() as undo:
        encoder = Watcher(design, "encoder", origin, stages, undo)
        encoder.watch(model.encoder, model.source_embedding(reading.source).vectors, source, source)
        decoder = Watcher(design, "decoder", position, stages, undo)
        decoder.watch(model.transformer, model.target_embedding.embed(reading.inputs), written, source)
        logits = model(reading.source, reading.inputs)[0, position].float()
    return {
        "position": position,
        "piece": tokenizers.target.piece(int(reading.target[0, position])),
        "source_position": origin,
        "source_piece": source[origin],
        "stages": [stage.told() for stage in (*stages, *output_stages(logits, tokenizers.target))],
    }


def most_seen(reading: Reading, position: int) -> int:
    """Not the end of the source, where idle heads rest."""
    weights = reading.attention("decoder", "cross")[-1, :, position].mean(dim=0)
    return int(weights.masked_fill(reading.source[0] == EOS, -1.0).argmax())


def output_stages(logits: Float[Tensor, "v"], tokenizer: Tokenizer) -> Iterator[Stage]:
    best = logits.topk(min(SHOWN, len(logits))).indices
    names = [tokenizer.piece(piece) for piece in best.tolist()]
    shown = {"logits": (formulas.LOGITS, logits), "probabilities": (formulas.PROBABILITIES, logits.softmax(dim=-1))}
    for name, (formula, values) in shown.items():
        yield Stage(name, "output", "decoder", None, formula, values[best][None], columns=names)
