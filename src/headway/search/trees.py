"""Outputs that are trees over the words of their sentence, whatever the model would rather say."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.errors import UsageError
from headway.search.logits_processors import GeneratedTokens, Scores
from headway.search.well_formed import Brackets
from headway.text.vocabulary import EOS

SHORTEST = 3  # tokens of a tree besides its leaves: a root that opens and closes, and the end


class Trees:
    """One root, a leaf for every word, nothing empty, and all closed by its own name within the cap.

    Some token is always allowed, and every way on from it can still become a tree in time.
    """

    def __init__(self, pairs: Sequence[tuple[int, int]], leaves: Sequence[int], words: Sequence[int]) -> None:
        """Opening and closing tokens, tokens that stand for words, and how many words each sentence has."""
        if not leaves:
            raise UsageError("trees without leaves: give at least one token that stands for a word")
        self.brackets = Brackets(pairs)
        self.leaves, self.words = torch.tensor(leaves), torch.tensor(words, dtype=torch.long).clamp(min=1)

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        self.leaves, self.words = self.leaves.to(scores.device), self.words.to(scores.device)
        return scores.masked_fill_(~self.allowed(generated, scores.size(1)), -torch.inf)

    def allowed(self, generated: GeneratedTokens, tokens: int) -> Bool[Tensor, "n v"]:
        ids, table = (
            generated.ids,
            torch.zeros(len(generated.ids), tokens, dtype=torch.bool, device=generated.ids.device),
        )
        depth, innermost = self.brackets.nesting(ids)
        missing, begun, inside = self.missing(generated), ids.size(1) > 0, depth > 0
        left = generated.cap - ids.size(1)
        room = left > missing + depth + 2  # for one more bracket, its closing, all that is missing, and the end
        kinds = torch.arange(len(self.brackets.closing), device=ids.device)
        table[:, EOS] = ~inside & begun
        table[:, self.leaves] = (inside & (missing > 0))[:, None]
        table[:, self.brackets.opening] = ((inside | (not begun)) & (missing > 0) & room)[:, None]
        closes = inside & ~self.just_opened(ids) & ((depth > 1) | (missing == 0))
        table[:, self.brackets.closing] = closes[:, None] & (innermost[:, None] == kinds)
        return table

    def missing(self, generated: GeneratedTokens) -> Int[Tensor, "n"]:
        """Leaves that are still to come; a tree that cannot hold all words in time is made to hold what it can."""
        wanted = self.words[generated.sentence].minimum((generated.cap - SHORTEST).clamp(min=1))
        return wanted - torch.isin(generated.ids, self.leaves).sum(dim=1)

    def just_opened(self, ids: Int[Tensor, "n t"]) -> Bool[Tensor, "n"]:
        return torch.isin(ids[:, -1:], self.brackets.opening).any(dim=1)
