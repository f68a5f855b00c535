"""A linear-chain conditional random field: scores of whole label sequences, summed and maximised (Lafferty 2001).

A sequence's score is the sum of its words' scores and of a score for every pair of neighbours, the edges included.
Padding stands on the right.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

WordScores = Float[Tensor, "b t v"]
Real = Bool[Tensor, "b t"]


@dataclass(frozen=True)
class Chain:
    """Scores of neighbours: before the first label, from each to the next, after the last."""

    first: Float[Tensor, "v"]
    next: Float[Tensor, "v v"]  # from the row's label to the column's
    last: Float[Tensor, "v"]

    def without(self, allowed: Chain) -> Chain:
        """The same with pairs left out that `allowed`, of zeros and minus infinities, forbids."""
        return Chain(self.first + allowed.first, self.next + allowed.next, self.last + allowed.last)

    def ordered(self, order: list[int]) -> Chain:
        """The same with labels in another order."""
        return Chain(self.first[order], self.next[order][:, order], self.last[order])


def sequence_score(scores: WordScores, labels: Int[Tensor, "b t"], real: Real, chain: Chain) -> Float[Tensor, "b"]:
    """Of the given labels. An empty sequence has score 0."""
    words = (scores.gather(-1, labels[..., None])[..., 0] * real).sum(dim=1)
    pairs = (chain.next[labels[:, :-1], labels[:, 1:]] * real[:, 1:]).sum(dim=1)
    ends = labels.gather(1, (real.sum(dim=1, keepdim=True) - 1).clamp(min=0))[:, 0]
    edges = (chain.first[labels[:, 0]] + chain.last[ends]) * real[:, 0]
    return words + pairs + edges


def forward_scores(scores: WordScores, real: Real, chain: Chain) -> Float[Tensor, "b t v"]:
    """The log of the sum over all beginnings that end in each label; padding repeats the last word's."""
    here = chain.first + scores[:, 0]
    found = [here]
    for place in range(1, scores.size(1)):
        onward = (here[:, :, None] + chain.next).logsumexp(dim=1) + scores[:, place]
        here = torch.where(real[:, place, None], onward, here)
        found.append(here)
    return torch.stack(found, dim=1)


def log_partition(scores: WordScores, real: Real, chain: Chain) -> Float[Tensor, "b"]:
    """The log of the sum over all sequences (the forward algorithm)."""
    whole = (forward_scores(scores, real, chain)[:, -1] + chain.last).logsumexp(dim=-1)
    return whole * real[:, 0]


def marginals(scores: WordScores, real: Real, chain: Chain) -> Float[Tensor, "b t v"]:
    """The probability of each label of each word, whatever its neighbours are (forward-backward)."""
    forward, here = forward_scores(scores, real, chain), chain.last.expand_as(scores[:, 0])
    backward = [here]
    for place in range(scores.size(1) - 1, 0, -1):
        onward = (chain.next + (scores[:, place] + here)[:, None, :]).logsumexp(dim=-1)
        here = torch.where(real[:, place, None], onward, here)
        backward.append(here)
    return (forward + torch.stack(backward[::-1], dim=1)).softmax(dim=-1)


def viterbi(scores: WordScores, real: Real, chain: Chain) -> Int[Tensor, "b t"]:
    """The best sequence of each row. Padding gets the last word's label."""
    here, came_from = chain.first + scores[:, 0], list[Tensor]()
    stay = torch.arange(scores.size(-1), device=scores.device).expand_as(here)
    for place in range(1, scores.size(1)):
        best, origin = (here[:, :, None] + chain.next).max(dim=1)
        going = real[:, place, None]
        here = torch.where(going, best + scores[:, place], here)
        came_from.append(torch.where(going, origin, stay))
    label = (here + chain.last).argmax(dim=-1)
    path = [label]
    for origin in reversed(came_from):
        label = origin.gather(1, label[:, None])[:, 0]
        path.append(label)
    return torch.stack(path[::-1], dim=1)
