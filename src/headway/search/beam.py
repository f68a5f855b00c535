"""Beam search: several outputs of a sentence grow together, and the best survive."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.search.base import Hypothesis, Stepper, check_alpha
from headway.search.candidates import Candidates, best_of_all
from headway.search.limits import Limits
from headway.search.pool import BeamDraft, finish
from headway.search.shaping import Shape
from headway.search.writing import Draft, Parents, Shaping, flat, write
from headway.text.vocabulary import EOS

# Given the beam before a step, all its candidates and the beam after it: a place for an inspector.
Watch = Callable[[BeamDraft, Candidates, BeamDraft], None]


@dataclass(frozen=True)
class Beam:
    """Goes on until no unfinished output can beat the worst one kept; a beam of one is greedy search."""

    kind: Literal["beam"] = "beam"
    size: int = 5  # outputs of a sentence that grow together
    alpha: float = 0.6  # how much scores favour long outputs, 0: not at all (Wu et al. 2016)
    n_best: int = 1  # outputs given back for each sentence
    patience: float | None = None  # stop early, when patience times size outputs have finished; unset: never
    limits: Limits = Limits()  # how long an output may be

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if not 1 <= self.size <= 1000:
            raise ValueError(f"size is {self.size}; it must be from 1 to 1000")
        if not 1 <= self.n_best <= self.size:
            raise ValueError(f"n_best is {self.n_best}; it must be from 1 to size, {self.size}")
        if self.patience is not None and not self.patience > 0:
            raise ValueError(f"patience is {self.patience}; it must be more than 0, or unset")

    @torch.inference_mode()
    def __call__(
        self,
        model: Stepper,
        source: Int[Tensor, "b s"],
        shapes: Sequence[Shape] = (),
        watch: Watch | None = None,
    ) -> list[list[Hypothesis]]:
        if not len(source):
            return []

        def advance(draft: BeamDraft, scores: Float[Tensor, "n v"], shape: Shaping) -> tuple[BeamDraft, Parents]:
            found = best_of_all(shape(scores), draft.totals, 2 * self.size)
            after, parents = settle(draft, found, self.size)
            if watch:
                watch(draft, found, after)
            return after, parents

        return write(model, source, self.opening(source), advance, (*self.limits.shapes(source), *shapes))

    def opening(self, source: Int[Tensor, "b s"], width: int = 1) -> BeamDraft:
        """One row a sentence, which the first step makes a beam. With `width` rows all but the first are dead."""
        draft = Draft.opening(source, self.limits, width, self.alpha)
        return BeamDraft.around(draft, keep=self.n_best, enough=self.enough)

    @property
    def enough(self) -> int:
        """Stop at this many finished outputs, whatever may follow."""
        patience = self.patience or (1.0 if self.size == 1 else math.inf)
        return int(min(max(math.ceil(patience * self.size), self.n_best), 1 << 30))


def settle(draft: BeamDraft, found: Candidates, size: int) -> tuple[BeamDraft, Int[Tensor, "b w"]]:
    """Ends among the first `size` candidates go to the pool; the first `size` others are the next beam.

    So an output finishes only where it would have stayed in the beam. Sentences that are done stay as they are.
    """
    ends = found.pieces == EOS
    pool = finish(draft, Candidates(*(x[:, :size] for x in found)), ends[:, :size])
    chosen = ends.sort(dim=1, stable=True).indices[:, :size]
    totals, scores, parents, pieces = (x.gather(1, chosen) for x in found)
    stay, own = draft.done[:, None], torch.arange(size, device=chosen.device)
    parents = torch.where(stay, own, parents)
    totals = torch.where(stay, draft.totals, totals)
    rows = flat(parents, draft.last.size(1))
    ids, token_scores = (x.flatten(0, 1).index_select(0, rows).unflatten(0, parents.shape) for x in draft.texts)
    ids.index_copy_(2, draft.step, pieces[..., None])
    token_scores.index_copy_(2, draft.step, scores[..., None])
    step = draft.step + 1
    beaten = pool.scores[:, -1] >= totals.amax(dim=1) * draft.reach
    done = draft.done | beaten | (pool.count >= draft.enough) | (step >= draft.cap)
    after = replace(
        draft, ids=ids, token_scores=token_scores, totals=totals, last=pieces, done=done, step=step, **vars(pool)
    )
    return after, parents
