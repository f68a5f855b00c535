"""Phrases that must come out, and how far each row has come with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.errors import UsageError
from headway.search.logits_processors import NOWHERE, table
from headway.text.vocabulary import EOS

Phrases = Sequence[Sequence[int]]


@dataclass
class Constraints:
    """What each sentence must say. Phrases that a sentence does not have are of length 0 and needed 0 times."""

    tokens: Int[Tensor, "b p l"]
    lengths: Int[Tensor, "b p"]
    times: Int[Tensor, "b p"]

    @staticmethod
    def of(phrases: Sequence[Phrases], cap: Int[Tensor, "b"]) -> Constraints:
        check(phrases, cap.tolist())
        counted = [Counter(tuple(phrase) for phrase in of_one) for of_one in phrases]
        most = max(1, *(len(one) for one in counted))
        spread = [[*one, *[()] * (most - len(one))] for one in counted]
        flat = table([phrase for one in spread for phrase in one])
        flat = flat if flat.size(1) else flat.new_full((len(flat), 1), NOWHERE)
        times = [[one[phrase] for phrase in row] for one, row in zip(counted, spread, strict=True)]
        tokens = flat.view(len(phrases), most, -1).to(cap.device)
        return Constraints(tokens, (tokens != NOWHERE).sum(-1), torch.tensor(times, device=cap.device))

    @property
    def size(self) -> Int[Tensor, "b"]:
        """Tokens to say in all."""
        return (self.lengths * self.times).sum(dim=1)


def check(phrases: Sequence[Phrases], caps: list[int]) -> None:
    """Refuse what cannot be said."""
    if len(phrases) != len(caps):
        raise UsageError(f"phrases are given for {len(phrases)} sentences, but there are {len(caps)}; give as many")
    for place, (of_one, cap) in enumerate(zip(phrases, caps, strict=True)):
        if not all(len(phrase) for phrase in of_one):
            raise UsageError(f"sentence {place}: a phrase that must come out is empty; give at least one token")
        if any(token <= EOS for phrase in of_one for token in phrase):
            raise UsageError(f"sentence {place}: a phrase that must come out holds a special token; leave it out")
        size = sum(len(phrase) for phrase in of_one)
        if size + 1 > cap:
            raise UsageError(
                f"sentence {place}: its phrases have {size} tokens, but its output may have {cap - 1}; "
                "give fewer phrases or raise the limits"
            )


def extend_matches(
    constraints: Constraints, matched: Bool[Tensor, "b c p l"], tokens: Int[Tensor, "b c"]
) -> Bool[Tensor, "b c p l"]:
    """With one more token, which beginnings of each phrase a text ends with: its first token, its first two, ...

    All are followed at once (shift-and, Baeza-Yates and Gonnet 1992), so a phrase begun and left may begin anew.
    """
    before = torch.cat([torch.ones_like(matched[..., :1]), matched[..., :-1]], dim=-1)
    return before & (constraints.tokens[:, None] == tokens[..., None, None])


def matched_length(constraints: Constraints, matched: Bool[Tensor, "b c p l"]) -> Int[Tensor, "b c p"]:
    """Tokens of each phrase that a text ends with, fewer than all of them."""
    length = torch.arange(1, matched.size(3) + 1, dtype=torch.int32, device=matched.device)
    return (length * (matched & (length < constraints.lengths[..., None])[:, None])).amax(dim=-1).long()


def just_completed(constraints: Constraints, matched: Bool[Tensor, "b c p l"]) -> Bool[Tensor, "b c p"]:
    """Whether each phrase has just been said."""
    last = (constraints.lengths - 1).clamp(min=0)[:, None, :, None].expand(*matched.shape[:3], 1)
    return matched.gather(3, last)[..., 0]


def without_overlap(matched: Bool[Tensor, "b c p l"], completed: Int[Tensor, "b c"]) -> Bool[Tensor, "b c p l"]:
    """The matches that may go on after a phrase of so many tokens: those that did not begin within it."""
    return matched & (torch.arange(1, matched.size(3) + 1, device=matched.device) >= completed[..., None, None])
