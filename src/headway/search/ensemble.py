"""Several models that write together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.errors import UsageError
from headway.model.inputs import SourceBatch
from headway.search.base import Rows, Stepper


@dataclass
class EnsembleRows:
    """The same hypotheses, as every model remembers them."""

    members: list[Rows]

    def reorder(self, rows: Int[Tensor, "n"]) -> None:
        for member in self.members:
            member.reorder(rows)

    def keep(self, sentences: Int[Tensor, "m"], beam: int) -> None:
        for member in self.members:
            member.keep(sentences, beam)


class Ensemble(nn.Module):
    """A stepper made of steppers: the mean of their probabilities. They must share both vocabularies."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        super().__init__()
        if not members:
            raise UsageError("an ensemble has no members; give at least one model")
        self.members: list[Any] = list(members)
        self.networks = nn.ModuleList(
            m for m in members if isinstance(m, nn.Module)
        )  # so that .to and .eval reach them

    def start(self, source: SourceBatch) -> EnsembleRows:
        return EnsembleRows([member.start(source) for member in self.members])

    def step(self, last: Int[Tensor, "n"], rows: EnsembleRows) -> Float[Tensor, "n v"]:
        pairs = zip(self.members, rows.members, strict=True)
        return mean_probability([member.step(last, remembered) for member, remembered in pairs])

    def forward(self, source: SourceBatch, target: Int[Tensor, "b t"]) -> Float[Tensor, "b t v"]:
        """All positions at once, for scoring."""
        return mean_probability([member(source, target) for member in self.members])


def mean_probability(logits: Sequence[Float[Tensor, "*n v"]]) -> Float[Tensor, "*n v"]:
    """The logarithm of the mean of probabilities."""
    sizes = {each.size(-1) for each in logits}
    if len(sizes) > 1:
        raise UsageError(f"the models' vocabularies have {sorted(sizes)} pieces; an ensemble needs the same one")
    stacked = torch.stack([each.log_softmax(dim=-1, dtype=torch.float32) for each in logits])
    return stacked.logsumexp(dim=0) - math.log(len(logits))
