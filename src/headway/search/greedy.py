"""The best token at every step."""

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
from headway.search.independent_rows import ending, run_independent_rows
from headway.search.limits import Limits
from headway.search.logits_processors import LogitsProcessor
from headway.search.loop import ProcessScores, SearchState


@dataclass(frozen=True)
class Greedy:
    """Fastest: one row a sentence, and nothing ever moves. Equals a beam of one."""

    kind: Literal["greedy"] = "greedy"
    alpha: float = 0.6  # how much scores favour long outputs, 0: not at all
    limits: Limits = Limits()  # how long an output may be

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    @torch.inference_mode()
    def __call__(
        self, model: Stepper, source: SourceBatch, logits_processors: Sequence[LogitsProcessor] = ()
    ) -> list[list[Hypothesis]]:
        if not len(source):
            return []
        initial_state = SearchState.initial_state(source, self.limits, 1, self.alpha)
        return run_independent_rows(
            model, source, initial_state, choose_best, (*self.limits.logits_processors(source), *logits_processors)
        )


def choose_best(scores: Float[Tensor, "n v"], process: ProcessScores) -> tuple[Float[Tensor, "n"], Int[Tensor, "n"]]:
    score, token = best_of_each(process(scores))
    return score, ending(token, score)
