"""Rows that never part: what greedy search and sampling write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.model.inputs import SourceBatch
from headway.search.base import Hypothesis, Stepper
from headway.search.logits_processors import LogitsProcessor
from headway.search.loop import Parents, ProcessScores, SearchState, run_search
from headway.text.vocabulary import EOS

# From log-probabilities, and what processes them, to each row's next token and its score.
Choice = Callable[[Float[Tensor, "n v"], ProcessScores], tuple[Float[Tensor, "n"], Int[Tensor, "n"]]]


@dataclass
class IndependentState(SearchState):
    """Every row goes on by itself until it ends."""

    ended: Bool[Tensor, "b w"]


def run_independent_rows(
    model: Stepper,
    source: SourceBatch,
    initial_state: SearchState,
    choose: Choice,
    logits_processors: Sequence[LogitsProcessor],
) -> list[list[Hypothesis]]:
    """Write every row by itself, its next token chosen by `choose`."""

    def advance(
        state: IndependentState, scores: Float[Tensor, "n v"], process: ProcessScores
    ) -> tuple[IndependentState, Parents]:
        score, token = (x.view_as(state.last) for x in choose(scores, process))
        state.ids.index_copy_(2, state.step, token[..., None])
        state.token_scores.index_copy_(2, state.step, score[..., None])
        ended = state.ended | (token == EOS)
        step = state.step + 1
        done = ended.all(dim=1) | (step >= state.cap)
        return replace(state, last=token, ended=ended, done=done, step=step), None

    lines = IndependentState(**vars(initial_state), ended=torch.zeros_like(initial_state.last, dtype=torch.bool))
    return run_search(model, source, lines, advance, logits_processors)


def ending(token: Int[Tensor, "n"], score: Float[Tensor, "n"]) -> Int[Tensor, "n"]:
    """Where logits processors forbid every token, the row ends."""
    return token.masked_fill(score == -torch.inf, EOS)
