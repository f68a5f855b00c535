"""The best continuations, found exactly and without sorting the vocabulary."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headway.text.vocabulary import PAD

BLOCK = 64  # tokens whose best is looked for first
SMALL = 1 << 14  # fewer scores than this are searched directly


class Candidates(NamedTuple):
    """Continuations of each sentence's rows, the most wanted first."""

    totals: Float[Tensor, "b c"]  # log-probability with the new token
    scores: Float[Tensor, "b c"]  # of the new token alone
    parents: Int[Tensor, "b c"]  # which of the sentence's rows it continues
    tokens: Int[Tensor, "b c"]


def block_maxima(scores: Float[Tensor, "n v"]) -> Float[Tensor, "n m"]:
    """The best score of every block of tokens; the last block may be shorter."""
    whole = scores.size(1) // BLOCK
    best = scores[:, : whole * BLOCK].unflatten(1, (whole, BLOCK)).amax(dim=-1)
    if scores.size(1) == whole * BLOCK:
        return best
    return torch.cat([best, scores[:, whole * BLOCK :].amax(dim=-1, keepdim=True)], dim=1)


def best_of_each(scores: Float[Tensor, "n v"]) -> tuple[Float[Tensor, "n"], Int[Tensor, "n"]]:
    """Each row's best token. A maximum is far cheaper than its place, so the place is sought in one block only."""
    if scores.numel() < SMALL or scores.size(1) < BLOCK:
        token = scores.argmax(dim=1)
    else:
        first = (block_maxima(scores).argmax(dim=1) * BLOCK).clamp(max=scores.size(1) - BLOCK)
        inside = first[:, None] + torch.arange(BLOCK, device=scores.device)
        token = first + scores.gather(1, inside).argmax(dim=1)
    return scores.gather(1, token[:, None])[:, 0], token


def best_of_all(scores: Float[Tensor, "n v"], totals: Float[Tensor, "b w"], count: int) -> Candidates:
    """The `count` best continuations of each sentence, over all its rows."""
    (sentences, beam), tokens = totals.shape, scores.size(1)
    found = min(count, beam * tokens)
    few = scores.numel() < SMALL or tokens < BLOCK
    places = direct(scores, totals, found) if few else by_blocks(scores, totals, found)
    parents = places.div(tokens, rounding_mode="floor")
    chosen = scores.view(sentences, beam * tokens).gather(1, places)
    best = Candidates(chosen + totals.gather(1, parents), chosen, parents, places % tokens)
    return best if found == count else padded(best, count)


def direct(scores: Float[Tensor, "n v"], totals: Float[Tensor, "b w"], count: int) -> Int[Tensor, "b c"]:
    summed = scores.view(*totals.shape, -1) + totals[..., None]
    return summed.flatten(1).topk(count, dim=1).indices


def by_blocks(scores: Float[Tensor, "n v"], totals: Float[Tensor, "b w"], count: int) -> Int[Tensor, "b c"]:
    """The best `count` lie in the `count` blocks with the best maxima: only those are looked into."""
    (sentences, _), tokens = totals.shape, scores.size(1)
    maxima = block_maxima(scores)
    blocks = maxima.size(1)
    summed = (maxima.view(*totals.shape, blocks) + totals[..., None]).flatten(1)
    chosen = summed.topk(min(count, summed.size(1)), dim=1, sorted=False).indices
    row = chosen.div(blocks, rounding_mode="floor")
    within = (chosen % blocks * BLOCK)[..., None] + torch.arange(BLOCK, device=scores.device)
    places = (row[..., None] * tokens + within.clamp(max=tokens - 1)).flatten(1)
    values = scores.view(sentences, -1).gather(1, places).unflatten(1, (-1, BLOCK)) + totals.gather(1, row)[..., None]
    if tokens % BLOCK:
        values = values.masked_fill(within >= tokens, -torch.inf)
    return places.gather(1, values.flatten(1).topk(count, dim=1).indices)


def padded(few: Candidates, count: int) -> Candidates:
    """A vocabulary smaller than the beam: fill up with candidates that never win."""
    missing = (0, count - few.totals.size(1))
    return Candidates(
        F.pad(few.totals, missing, value=-torch.inf),
        F.pad(few.scores, missing, value=-torch.inf),
        F.pad(few.parents, missing),
        F.pad(few.tokens, missing, value=PAD),
    )
