"""Outputs that must keep a form, such as brackets that close."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.errors import UsageError
from headway.search.logits_processors import GeneratedTokens, Scores
from headway.text.vocabulary import EOS

# From what rows have said and the steps they have left to a table of what each may say next.
Rule = Callable[[Int[Tensor, "n t"], Int[Tensor, "n"], int], Bool[Tensor, "n v"]]


class WellFormed:
    """Only what a rule allows. The rule sees the whole text so far, so it needs no state of its own."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        left = generated.cap - generated.ids.size(1)
        return scores.masked_fill_(~self.rule(generated.ids, left, scores.size(1)), -torch.inf)


class Brackets:
    """A rule: what opens is closed, in the right order, before the end and within the cap."""

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        names = [token for pair in pairs for token in pair]
        if len(set(names)) < len(names) or not pairs:
            raise UsageError(f"brackets are {list(pairs)}; give at least one pair, and each token once")
        self.opening, self.closing = torch.tensor(pairs).unbind(dim=1)
        # By token: what it does to the depth, and the kind of bracket it opens. The last row is for all later tokens.
        self.change, self.kind = torch.zeros(2, max(names) + 2, dtype=torch.long)
        self.change[self.opening], self.change[self.closing] = 1, -1
        self.kind[self.opening] = torch.arange(len(pairs))

    def __call__(self, ids: Int[Tensor, "n t"], left: Int[Tensor, "n"], tokens: int) -> Bool[Tensor, "n v"]:
        depth, innermost = self.nesting(ids)
        allowed = torch.ones(len(ids), tokens, dtype=torch.bool, device=ids.device)
        allowed[:, EOS] = depth == 0
        kinds = torch.arange(len(self.closing), device=ids.device)
        matching = (innermost[:, None] == kinds) & (depth > 0)[:, None]
        allowed[:, self.closing] = matching
        allowed[:, self.opening] = (left > depth + 2)[:, None]  # room to close it, the others, and to end
        hurry = (depth > 0) & (left <= depth + 1)
        return allowed & (~hurry[:, None] | self.closes(tokens))

    def closes(self, tokens: int) -> Bool[Tensor, "v"]:
        return torch.zeros(tokens, dtype=torch.bool, device=self.closing.device).index_fill_(0, self.closing, True)

    def nesting(self, ids: Int[Tensor, "n t"]) -> tuple[Int[Tensor, "n"], Int[Tensor, "n"]]:
        """How many brackets are open in each row, and the kind of the innermost."""
        self.opening, self.closing, self.change, self.kind = (
            table.to(ids.device) for table in (self.opening, self.closing, self.change, self.kind)
        )
        if not ids.size(1):
            nothing = ids.new_zeros(len(ids))
            return nothing, nothing
        known = ids.clamp(max=len(self.change) - 1)
        change = self.change[known]
        depth = change.cumsum(dim=1)
        now, place = depth[:, -1], torch.arange(1, ids.size(1) + 1, device=ids.device)
        last = torch.where((change > 0) & (depth == now[:, None]), place, 0).argmax(dim=1)
        return now, self.kind[known].gather(1, last[:, None])[:, 0]
