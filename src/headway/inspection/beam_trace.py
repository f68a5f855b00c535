"""A beam search that is watched."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.inspection.trace_request import Check
from headway.model.hooks import attention_layers, exchange, last_cross, watch
from headway.model.models import EncoderDecoder
from headway.search import Beam, Hypothesis
from headway.search.beam_record import Choice, Record
from headway.search.logits_processors import GeneratedTokens, LogitsProcessor, Scores
from headway.storage.byte_tables import encoded, shares
from headway.text.tokenizer import Tokenizer


class CheckEachStep:
    """A logits processor that changes nothing and calls `check` at every step."""

    def __init__(self, check: Check) -> None:
        self.check = check

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        self.check()
        return scores


class TracedSearch:
    """A beam over one sentence and its record. With `cross`, also where each row looked when it wrote a piece."""

    def __init__(self, model: EncoderDecoder, beam: Beam, logits_processors: Sequence[LogitsProcessor]) -> None:
        self.model, self.beam, self.logits_processors = model, beam, logits_processors
        self.record, self.looks = Record(), list[Float[Tensor, "n h 1 s"]]()

    def __call__(self, source: Int[Tensor, "1 s"], cross: bool = False) -> list[Hypothesis]:
        with ExitStack() as undo:
            if cross:
                layer = attention_layers(self.model)[last_cross(self.model)]
                exchange(layer, undo)
                watch(layer, self.looks.append, undo)
            found = self.beam(self.model, source, self.logits_processors, on_step=self.record)
        return [one for one in found[0] if one.total > -torch.inf]

    @property
    def steps(self) -> list[list[Choice]]:
        return self.record.steps.get(0, [])

    def to_dict(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """The whole search as plain data."""
        steps = [[{"text": tokenizer.piece(one["piece"]), **one} for one in step] for step in self.steps]
        cross = [kept_looks(look, step) for look, step in zip(self.looks, self.steps, strict=False)]
        return {"size": self.beam.size, "alpha": self.beam.alpha, "steps": steps, "cross": cross or None}


def kept_looks(look: Float[Tensor, "n h 1 s"], step: list[Choice]) -> list[str]:
    """For each row that is kept, where its parent looked while writing the new piece: the mean of the heads."""
    rows = shares(look[:, :, 0].float().mean(dim=1))
    return [encoded(rows[one["parent"]]) for one in step if one["row"] is not None]
