"""The finished outputs of each sentence: the best so many, the best first."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.search.base import Hypothesis
from headway.search.candidates import Candidates
from headway.search.loop import SearchState


@dataclass
class Pool:
    """Empty places have a score of minus infinity."""

    ids: Int[Tensor, "b k t"]
    token_scores: Float[Tensor, "b k t"]
    lengths: Int[Tensor, "b k"]  # tokens without the end
    totals: Float[Tensor, "b k"]
    scores: Float[Tensor, "b k"]  # totals made comparable between lengths
    count: Int[Tensor, "b"]  # how many have finished, kept or not

    @staticmethod
    def empty(state: SearchState, keep: int) -> Pool:
        sentences, _, longest = state.ids.shape
        nothing = state.weights.new_full((sentences, keep), -torch.inf)
        return Pool(
            ids=state.ids.new_zeros(sentences, keep, longest),
            token_scores=state.weights.new_zeros(sentences, keep, longest),
            lengths=state.ids.new_zeros(sentences, keep),
            totals=nothing,
            scores=nothing.clone(),
            count=state.ids.new_zeros(sentences),
        )

    def add(self, state: SearchState, ending: Candidates, ends: Bool[Tensor, "b c"]) -> Pool:
        """Let candidates that end compete with the outputs that are kept."""
        if ends.device.type == "cpu" and not ends.any():
            return self  # most steps; a GPU would have to be waited for
        ends = ends & (ending.totals > -torch.inf) & ~state.done[:, None]
        scores = ending.totals * state.weights.index_select(0, state.step)
        ids, token_scores = state.continued(ending.parents, ending.tokens, ending.scores)
        new = Pool(
            ids=ids,
            token_scores=token_scores,
            lengths=state.step.expand(ends.shape),
            totals=ending.totals,
            scores=scores.masked_fill(~ends, -torch.inf),
            count=self.count + ends.sum(dim=1),
        )
        return self.best_with(new)

    def best_with(self, new: Pool) -> Pool:
        keep = self.scores.size(1)
        scores, chosen = torch.cat([self.scores, new.scores], dim=1).topk(keep, dim=1)
        wide = chosen[..., None].expand(-1, -1, self.ids.size(-1))
        return Pool(
            ids=torch.cat([self.ids, new.ids], dim=1).gather(1, wide),
            token_scores=torch.cat([self.token_scores, new.token_scores], dim=1).gather(1, wide),
            lengths=torch.cat([self.lengths, new.lengths], dim=1).gather(1, chosen),
            totals=torch.cat([self.totals, new.totals], dim=1).gather(1, chosen),
            scores=scores,
            count=new.count,
        )

    def hypotheses(self) -> list[list[Hypothesis]]:
        columns = (self.ids, self.token_scores, self.lengths, self.totals, self.scores)
        return [
            [
                Hypothesis(ids[:length], score, total, scores[: length + 1], finished=True)
                for ids, scores, length, total, score in zip(*sentence, strict=True)
                if score > -torch.inf
            ]
            for sentence in zip(*(column.tolist() for column in columns), strict=True)
        ]
