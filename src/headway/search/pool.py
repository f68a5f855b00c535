"""The finished outputs of each sentence: the best so many, the best first."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.search.base import Hypothesis
from headway.search.candidates import Candidates
from headway.search.writing import Draft, flat


@dataclass
class Pool:
    """Empty places have a score of minus infinity."""

    ids: Int[Tensor, "b k t"]
    token_scores: Float[Tensor, "b k t"]
    lengths: Int[Tensor, "b k"]  # pieces without the end
    totals: Float[Tensor, "b k"]
    scores: Float[Tensor, "b k"]  # totals made comparable between lengths
    count: Int[Tensor, "b"]  # how many have finished, kept or not

    @classmethod
    def empty(cls, draft: Draft, keep: int) -> Pool:
        sentences, _, longest = draft.ids.shape
        nothing = draft.weights.new_full((sentences, keep), -torch.inf)
        return Pool(
            ids=draft.ids.new_zeros(sentences, keep, longest),
            token_scores=draft.weights.new_zeros(sentences, keep, longest),
            lengths=draft.ids.new_zeros(sentences, keep),
            totals=nothing,
            scores=nothing.clone(),
            count=draft.ids.new_zeros(sentences),
        )

    def select(self, sentences: Int[Tensor, "m"]) -> Pool:
        return Pool(*(getattr(self, f.name).index_select(0, sentences) for f in fields(self)))

    def add(self, draft: Draft, ending: Candidates, ends: Bool[Tensor, "b c"]) -> Pool:
        """Let candidates that end compete with the outputs that are kept."""
        if ends.device.type == "cpu" and not ends.any():
            return self  # most steps, and a CPU need not wait to know
        ends = ends & (ending.totals > -torch.inf) & ~draft.done[:, None]
        scores = (ending.totals * draft.weights.index_select(0, draft.step)).masked_fill(~ends, -torch.inf)
        rows = flat(ending.parents, draft.last.size(1))
        ids, token_scores = draft.texts_of(rows, ending.scores)
        new = Pool(
            ids.unflatten(0, ends.shape),
            token_scores.unflatten(0, ends.shape),
            draft.step.expand(ends.shape),
            ending.totals,
            scores,
            self.count,
        )
        return self.best_with(new, self.count + ends.sum(dim=1))
