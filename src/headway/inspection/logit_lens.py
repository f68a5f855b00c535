"""The logit lens: what each decoder layer would say if it were the last (nostalgebraist 2020)."""

from __future__ import annotations

from typing import Any

import torch

from headway.inspection.forward_pass import Reading
from headway.inspection.tokens import likeliest
from headway.model.models import EncoderDecoder
from headway.text.tokenizer import Tokenizer

TOP = 5


@torch.inference_mode()
def lens(model: EncoderDecoder, reading: Reading, tokenizer: Tokenizer) -> dict[str, Any]:
    """Every layer's vectors through the stack's last norm and the output matrix."""
    decoder, source = model.transformer, model.encode(reading.source)
    said = [model.head(decoder.normalise(x[None], None), source).float().softmax(dim=-1)[0] for x in reading.layers]
    return {"layers": len(said), "top": TOP, "cells": likeliest(torch.stack(said), tokenizer, TOP)}
