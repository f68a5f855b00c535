"""Beam search: several outputs of a sentence grow together, and the best survive."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.model.inputs import SourceBatch
from headway.search.base import Hypothesis, Stepper, check_alpha
from headway.search.candidates import Candidates, best_of_all
from headway.search.limits import Limits
from headway.search.logits_processors import Shape
from headway.search.loop import Draft, Parents, Shaping, write
from headway.search.pool import Pool
from headway.text.vocabulary import EOS


@dataclass
class BeamDraft(Draft):
    """The rows of a sentence are its beam."""

    totals: Float[Tensor, "b w"]  # log-probability of each row; minus infinity: the row is dead
    reach: Float[Tensor, "b"]  # the most that length can do for a total, at the sentence's cap
    pool: Pool

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Finished outputs; where they are too few, outputs that the cap has cut."""
        finished, keep = self.pool.hypotheses(), self.pool.scores.size(1)
        if all(len(outputs) == keep for outputs in finished):
            return finished
        cut = ([one for one in rows if one.total > -math.inf] for rows in super().hypotheses())
        return [(whole + part)[:keep] or [NOTHING] for whole, part in zip(finished, cut, strict=True)]


B = TypeVar("B", bound=BeamDraft)
NOTHING = Hypothesis([], -math.inf, -math.inf, [], finished=False)  # shapes forbade every piece

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
        source: SourceBatch,
        shapes: Sequence[Shape] = (),
        watch: Watch | None = None,
    ) -> list[list[Hypothesis]]:
        if not len(source):
            return []

        def advance(draft: BeamDraft, scores: Float[Tensor, "n v"], shape: Shaping) -> tuple[BeamDraft, Parents]:
            found = best_of_all(shape(scores), draft.totals, 2 * self.size)
            after, parents = self.settle(draft, found)
            if watch:
                watch(draft, found, after)
            return after, parents

        return write(model, source, self.opening(source), advance, (*self.limits.shapes(source), *shapes))

    def opening(self, source: SourceBatch, width: int = 1, room: int | None = None) -> BeamDraft:
        """One row a sentence, which the first step makes a beam; of more rows all but the first are dead."""
        draft = Draft.opening(source, self.limits, width, self.alpha, room)
        totals = draft.weights.new_full(draft.last.shape, -torch.inf)
        totals[:, 0] = 0
        reach = draft.weights.index_select(0, draft.cap - 1)
        return BeamDraft(**vars(draft), totals=totals, reach=reach, pool=Pool.empty(draft, self.n_best))

    def settle(self, draft: B, found: Candidates) -> tuple[B, Int[Tensor, "b w"]]:
        """Ends among the first `size` candidates go to the pool; the first `size` others are the next beam.

        So an output finishes only where it would have stayed in the beam. Sentences that are done stay as they are.
        """
        ends = found.pieces == EOS
        pool = draft.pool.add(draft, Candidates(*(x[:, : self.size] for x in found)), ends[:, : self.size])
        others = ends.sort(dim=1, stable=True).indices[:, : self.size]
        totals, scores, parents, pieces = (x.gather(1, others) for x in found)
        parents = torch.where(draft.done[:, None], torch.arange(self.size, device=parents.device), parents)
        totals = torch.where(draft.done[:, None], draft.totals, totals)
        ids, token_scores = draft.continued(parents, pieces, scores)
        step = draft.step + 1
        beaten = totals.amax(dim=1) * draft.reach <= pool.scores[:, -1]
        done = draft.done | beaten | (pool.count >= self.enough) | (step >= draft.cap)
        after = replace(
            draft, ids=ids, token_scores=token_scores, totals=totals, last=pieces, done=done, step=step, pool=pool
        )
        return after, parents

    @property
    def enough(self) -> int:
        """Stop at this many finished outputs, whatever may follow."""
        patience = self.patience or (1.0 if self.size == 1 else math.inf)
        return max(math.ceil(min(patience * self.size, 1e9)), self.n_best)
