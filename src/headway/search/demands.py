"""Phrases that must come out, and how far each row has come with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headway.errors import UsageError
from headway.search.shaping import NOWHERE, table
from headway.text.vocabulary import EOS

Phrases = Sequence[Sequence[int]]
BEFORE = -2  # stands before the first piece; no piece and no gap in a phrase


@dataclass
class Demands:
    """What each sentence must say. Phrases that a sentence does not have are of length 0 and needed 0 times."""

    pieces: Int[Tensor, "b p l"]
    lengths: Int[Tensor, "b p"]
    times: Int[Tensor, "b p"]

    @staticmethod
    def of(phrases: Sequence[Phrases], cap: Int[Tensor, "b"]) -> Demands:
        check(phrases, cap.tolist())
        counted = [Counter(tuple(phrase) for phrase in of_one) for of_one in phrases]
        most = max(1, *(len(one) for one in counted))
        spread = [[*one, *[()] * (most - len(one))] for one in counted]
        flat = table([phrase for one in spread for phrase in one])
        flat = flat if flat.size(1) else flat.new_full((len(flat), 1), NOWHERE)
        times = [[one[phrase] for phrase in row] for one, row in zip(counted, spread, strict=True)]
        pieces = flat.view(len(phrases), most, -1).to(cap.device)
        return Demands(pieces, (pieces != NOWHERE).sum(-1), torch.tensor(times, device=cap.device))

    @property
    def size(self) -> Int[Tensor, "b"]:
        """Pieces to say in all."""
        return (self.lengths * self.times).sum(dim=1)


def check(phrases: Sequence[Phrases], caps: list[int]) -> None:
    """Refuse what cannot be said."""
    if len(phrases) != len(caps):
        raise UsageError(f"phrases are given for {len(phrases)} sentences, but there are {len(caps)}; give as many")
    for place, (of_one, cap) in enumerate(zip(phrases, caps, strict=True)):
        if not all(len(phrase) for phrase in of_one):
            raise UsageError(f"sentence {place}: a phrase that must come out is empty; give at least one piece")
        if any(piece <= EOS for phrase in of_one for piece in phrase):
            raise UsageError(f"sentence {place}: a phrase that must come out holds a special piece; leave it out")
        size = sum(len(phrase) for phrase in of_one)
        if size + 1 > cap:
            raise UsageError(
                f"sentence {place}: its phrases have {size} pieces, but its output may have {cap - 1}; "
                "give fewer phrases or raise the limits"
            )


def matched(demands: Demands, recent: Int[Tensor, "b c l"]) -> tuple[Int[Tensor, "b c p"], Int[Tensor, "b c p"]]:
    """Of each phrase, whether it has just been said, and how much of its beginning the latest pieces are.

    A phrase begun and left is simply no longer at the end of the text; what remains of it may begin it anew.
    """
    whole = begun = torch.zeros(*recent.shape[:2], demands.times.size(1), dtype=torch.long, device=recent.device)
    for length in range(1, recent.size(2) + 1):
        hit = (recent[:, :, None, -length:] == demands.pieces[:, None, :, :length]).all(dim=-1)
        whole = whole + (hit & (demands.lengths == length)[:, None])
        begun = begun.masked_fill(hit & (demands.lengths > length)[:, None], length)
    return whole, begun
