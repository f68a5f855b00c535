"""A penalty that grows with distance, steeper in some heads than in others (Press et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.model.positions.base import Positions
from headway.model.size import Size


class AlibiPositions(Positions):
    """Nothing is learned; lengths never seen in training work."""

    adds_bias: ClassVar[bool] = True
    slope: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        slope = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slope", slope, persistent=False)

    def bias(
        self,
        q: Float[Tensor, "b h q e"],
        k: Float[Tensor, "b h k e"],
        q_pos: Int[Tensor, "#b q"],
        k_pos: Int[Tensor, "#b k"],
    ) -> Float[Tensor, "#b h q k"]:
        distance = (q_pos[:, :, None] - k_pos[:, None, :]).abs()[:, None]
        return -(self.slope[:, None, None] * distance).to(q.dtype)


@dataclass(frozen=True)
class Alibi:
    """Attention with linear biases."""

    kind: Literal["alibi"] = "alibi"

    def build(self, size: Size) -> Positions:
        return AlibiPositions(size.heads)
