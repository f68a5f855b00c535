"""Relative positions inside attention (Dai et al. 2019, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.functions import by_distance, frequencies, sinusoid
from headway.model.positions.base import Positions
from headway.model.size import Size


class TransformerXLPositions(Positions):
    """(q + u) k + (q + v) R  =  q k + [u k + q R + v R]: the bracket is a bias."""

    per_layer: ClassVar[bool] = True
    adds_bias: ClassVar[bool] = True
    scaled: ClassVar[bool | None] = True

    def __init__(self, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.u, self.v = (nn.Parameter(torch.randn(heads, head_width) * 0.02) for _ in range(2))
        self.to_r = nn.Linear(width, heads * head_width, bias=False)

    def distances(self, distance: Int[Tensor, "n"]) -> Float[Tensor, "n h e"]:
        wave = sinusoid(distance, frequencies(self.width, device=distance.device))
        return self.to_r(wave.to(self.to_r.weight.dtype)).unflatten(-1, (self.heads, -1))

    def bias(
        self,
        q: Float[Tensor, "b h q e"],
        k: Float[Tensor, "b h k e"],
        q_pos: Int[Tensor, "#b q"],
        k_pos: Int[Tensor, "#b k"],
    ) -> Float[Tensor, "#b h q k"]:
        r, pick = by_distance(self.distances, q_pos, k_pos)
        scale = q.size(-1) ** -0.5  # of vectors: there are fewer of them than of scores
        content = torch.einsum("he,bhke->bhk", self.u.to(k.dtype) * scale, k)[:, :, None, :]
        place = torch.einsum("bhqe,nhe->bhqn", (q + self.v[:, None].to(q.dtype)) * scale, r.to(q.dtype))
        return content + pick(place)


@dataclass(frozen=True)
class TransformerXL:
    """Relative positions of Transformer-XL; every layer learns its own."""

    kind: Literal["transformer_xl"] = "transformer_xl"

    def build(self, size: Size) -> Positions:
        return TransformerXLPositions(size.width, size.heads, size.head_width)
