"""Has every source word been looked at? A score for outputs whose attention is known."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from headway.search.base import Hypothesis


def coverage_penalty(attention: Float[Tensor, "t s"], beta: float = 0.2) -> float:
    """beta times the sum over source tokens of log min(1, attention received) (Wu et al. 2016, equation 14).

    Give cross-attention weights averaged over heads, without padding: each row adds up to one.
    """
    received = attention.float().sum(dim=0).clamp(min=1e-9, max=1.0)
    return beta * float(received.log().sum())


def rerank_by_coverage(
    hypotheses: Sequence[Hypothesis], attentions: Sequence[Float[Tensor, "t s"]], beta: float = 0.2
) -> list[Hypothesis]:
    """An n-best list in a new order: score plus coverage penalty, and the sum is the new score."""
    pairs = zip(hypotheses, attentions, strict=True)
    scored = [one._replace(score=one.score + coverage_penalty(attention, beta)) for one, attention in pairs]
    return sorted(scored, key=lambda one: (not one.finished, -one.score))
