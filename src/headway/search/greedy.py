"""The best piece at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.model.inputs import SourceBatch
from headway.search.base import Hypothesis, Stepper, check_alpha
from headway.search.candidates import best_of_each
from headway.search.independent_rows import ending, write_lines
from headway.search.limits import Limits
from headway.search.logits_processors import Shape
from headway.search.loop import Draft, Shaping


@dataclass(frozen=True)
class Greedy:
    """Fastest: one row a sentence, and nothing ever moves. Equals a beam of one."""

    kind: Literal["greedy"] = "greedy"
    alpha: float = 0.6  # how much scores favour long outputs, 0: not at all
    limits: Limits = Limits()  # how long an output may be

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    @torch.inference_mode()
    def __call__(self, model: Stepper, source: SourceBatch, shapes: Sequence[Shape] = ()) -> list[list[Hypothesis]]:
        if not len(source):
            return []
        opening = Draft.opening(source, self.limits, 1, self.alpha)
        return write_lines(model, source, opening, choose_best, (*self.limits.shapes(source), *shapes))


def choose_best(scores: Float[Tensor, "n v"], shape: Shaping) -> tuple[Float[Tensor, "n"], Int[Tensor, "n"]]:
    score, piece = best_of_each(shape(scores))
    return score, ending(piece, score)
