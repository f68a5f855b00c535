"""Vectors to labels of words: each by itself, or as one sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.model.crf import Chain, WordScores, log_partition, marginals, sequence_score, viterbi

Real = Bool[Tensor, "b t"]


class TagHead(nn.Module):
    """A linear map to the labels; every word is judged by itself. Only the decoder looks at neighbours."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, labels)

    def forward(self, hidden: Float[Tensor, "b t d"]) -> WordScores:
        """At least single precision: sums over sequences need it."""
        scores = self.linear(hidden)
        return scores.to(torch.promote_types(scores.dtype, torch.float32))

    def chain(self) -> Chain:
        """Neighbours say nothing about one another."""
        labels = self.linear.out_features
        zeros = self.linear.weight.new_zeros(labels, labels, dtype=torch.float32)
        return Chain(zeros[0], zeros, zeros[0])

    def loss(
        self, scores: WordScores, labels: Int[Tensor, "b t"], real: Real, smoothing: float
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """What is minimised, and the plain negative log-likelihood; sums over the real words."""
        log_probs = scores.log_softmax(dim=-1)
        nll = -(log_probs.gather(-1, labels[..., None])[..., 0] * real).sum()
        spread = -(log_probs.mean(dim=-1) * real).sum()
        return (1 - smoothing) * nll + smoothing * spread, nll.detach()

    def chances(self, scores: WordScores, real: Real) -> Float[Tensor, "b t v"]:  # noqa: ARG002
        """Of each label of each word, as the loss sees them."""
        return scores.softmax(dim=-1)

    def decode(self, scores: WordScores, real: Real, allowed: Chain) -> Int[Tensor, "b t"]:
        """The best labels among those that `allowed` lets stand side by side."""
        return viterbi(scores, real, self.chain().without(allowed))

    def probabilities(self, scores: WordScores, real: Real, allowed: Chain) -> Float[Tensor, "b t v"]:
        """Of each label of each word, over all sequences that are allowed."""
        return marginals(scores, real, self.chain().without(allowed))


class CrfHead(TagHead):
    """The same with learned scores for neighbours; the loss is that of whole sequences."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__(width, labels)
        self.first, self.last = (nn.Parameter(torch.zeros(labels)) for _ in range(2))
        self.next = nn.Parameter(torch.zeros(labels, labels))

    def chain(self) -> Chain:
        return Chain(self.first.float(), self.next.float(), self.last.float())

    def loss(
        self,
        scores: WordScores,
        labels: Int[Tensor, "b t"],
        real: Real,
        smoothing: float,  # noqa: ARG002
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """There is no smoothing of whole sequences."""
        chain = self.chain()
        total = (log_partition(scores, real, chain) - sequence_score(scores, labels, real, chain)).sum()
        return total, total.detach()

    def chances(self, scores: WordScores, real: Real) -> Float[Tensor, "b t v"]:
        return marginals(scores, real, self.chain())


@dataclass(frozen=True)
class Softmax:
    """Every word by itself."""

    kind: Literal["softmax"] = "softmax"

    def build(self, width: int, labels: int) -> TagHead:
        return TagHead(width, labels)


@dataclass(frozen=True)
class Crf:
    """A conditional random field over the sentence."""

    kind: Literal["crf"] = "crf"

    def build(self, width: int, labels: int) -> TagHead:
        return CrfHead(width, labels)


Tags = Crf | Softmax
