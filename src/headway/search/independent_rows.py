"""Rows that never part: what greedy search and sampling write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.model.inputs import SourceBatch
from headway.search.base import Hypothesis, Stepper
from headway.search.logits_processors import Shape
from headway.search.loop import Draft, Parents, Shaping, write
from headway.text.vocabulary import EOS

# From log-probabilities and their shaping to each row's next piece and its score.
Choice = Callable[[Float[Tensor, "n v"], Shaping], tuple[Float[Tensor, "n"], Int[Tensor, "n"]]]


@dataclass
class Lines(Draft):
    """Every row goes on by itself until it ends."""

    ended: Bool[Tensor, "b w"]


def write_lines(
    model: Stepper,
    source: SourceBatch,
    opening: Draft,
    choose: Choice,
    shapes: Sequence[Shape],
) -> list[list[Hypothesis]]:
    """Write every row by itself, its next piece chosen by `choose`."""

    def advance(draft: Lines, scores: Float[Tensor, "n v"], shape: Shaping) -> tuple[Lines, Parents]:
        score, piece = (x.view_as(draft.last) for x in choose(scores, shape))
        draft.ids.index_copy_(2, draft.step, piece[..., None])
        draft.token_scores.index_copy_(2, draft.step, score[..., None])
        ended = draft.ended | (piece == EOS)
        step = draft.step + 1
        done = ended.all(dim=1) | (step >= draft.cap)
        return replace(draft, last=piece, ended=ended, done=done, step=step), None

    lines = Lines(**vars(opening), ended=torch.zeros_like(opening.last, dtype=torch.bool))
    return write(model, source, lines, advance, shapes)


def ending(piece: Int[Tensor, "n"], score: Float[Tensor, "n"]) -> Int[Tensor, "n"]:
    """Where shapes forbid every piece, the row ends."""
    return piece.masked_fill(score == -torch.inf, EOS)
