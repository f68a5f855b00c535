"""A learned bias for every range of distances, shared by all layers (Raffel et al. 2020, T5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.positions.base import Positions
from headway.model.size import Size, check_range


def bucket(distance: Int[Tensor, "*shape"], buckets: int, furthest: int) -> Int[Tensor, "*shape"]:
    """Key minus query -> bucket: half of them for each direction, exact when near, logarithmic when far."""
    half = buckets // 2
    ahead = (distance > 0) * half
    distance = distance.abs()
    exact = half // 2
    ratio = torch.log(distance.clamp_min(1) / exact) / math.log(furthest / exact)
    far = exact + (ratio * (half - exact)).long()
    return ahead + torch.where(distance < exact, distance, far.clamp_max(half - 1))


class BucketedPositions(Positions):
    """One number a head and bucket, added to the scores."""

    adds_bias: ClassVar[bool] = True

    def __init__(self, heads: int, buckets: int, furthest: int) -> None:
        super().__init__()
        self.buckets, self.furthest = buckets, furthest
        self.table = nn.Embedding(buckets, heads)
        nn.init.normal_(self.table.weight, std=0.1)

    def bias(
        self,
        q: Float[Tensor, "b h q e"],
        k: Float[Tensor, "b h k e"],
        q_pos: Int[Tensor, "#b q"],
        k_pos: Int[Tensor, "#b k"],
    ) -> Float[Tensor, "#b h q k"]:
        ahead = k_pos[:, None, :] - q_pos[:, :, None]
        bias = self.table(bucket(ahead, self.buckets, self.furthest))
        return bias.permute(0, 3, 1, 2).to(q.dtype)


@dataclass(frozen=True)
class Bucketed:
    """Learned biases by distance, T5's."""

    kind: Literal["bucketed"] = "bucketed"
    buckets: int = 32  # number of buckets; half of them for positions ahead, half for positions behind
    furthest: int = 128  # distance from which on all share the last bucket

    def __post_init__(self) -> None:
        check_range("buckets", self.buckets, 4, 1_000_000)
        check_range("furthest", self.furthest, self.buckets // 4 + 1, 1_000_000)
        if self.buckets % 2:
            raise ValueError(f"buckets is {self.buckets}; it must be even, half for each direction")

    def build(self, size: Size) -> Positions:
        return BucketedPositions(size.heads, self.buckets, self.furthest)
