"""A position scheme: a penalty that grows with the square of the distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor

from headway.model.positions.base import Positions
from headway.model.size import Size


class SquarePositions(Positions):
    adds_bias: ClassVar[bool] = True

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def bias(
        self,
        q: Float[Tensor, "b h q e"],
        k: Float[Tensor, "b h k e"],
        q_pos: Int[Tensor, "#b q"],
        k_pos: Int[Tensor, "#b k"],
    ) -> Float[Tensor, "#b h q k"]:
        distance = q_pos[:, :, None] - k_pos[:, None, :]
        return -self.weight * distance.square()[:, None].expand(-1, q.size(1), -1, -1)


@dataclass(frozen=True)
class Square:
    """A penalty that grows with the square of the distance."""

    kind: Literal["square"] = "square"
    weight: float = 0.01  # how fast it grows

    def build(self, size: Size) -> Positions:
        return SquarePositions(self.weight)
