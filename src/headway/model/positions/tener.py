"""Direction- and distance-aware attention for tagging (Yan et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.functions import by_distance, frequencies, sinusoid
from headway.model.positions.base import Positions
from headway.model.size import Size


class TenerPositions(Positions):
    """u k + q R + v R with R = sinusoid(q - k), not projected, and scores that are not scaled (equations 17-19)."""

    per_layer: ClassVar[bool] = True
    adds_bias: ClassVar[bool] = True
    scaled: ClassVar[bool | None] = False

    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        self.u, self.v = (nn.Parameter(torch.randn(heads, head_width) * 0.02) for _ in range(2))

    def bias(
        self,
        q: Float[Tensor, "b h q e"],
        k: Float[Tensor, "b h k e"],
        q_pos: Int[Tensor, "#b q"],
        k_pos: Int[Tensor, "#b k"],
    ) -> Float[Tensor, "#b h q k"]:
        rates = frequencies(q.size(-1), device=q.device)
        r, pick = by_distance(lambda distance: sinusoid(distance, rates), q_pos, k_pos)
        content = torch.einsum("he,bhke->bhk", self.u.to(k.dtype), k)[:, :, None, :]
        place = torch.einsum("bhqe,ne->bhqn", q + self.v[:, None].to(q.dtype), r.to(q.dtype))
        return content + pick(place)


@dataclass(frozen=True)
class Tener:
    """Relative positions of TENER; needs attention with `scaled = false`."""

    kind: Literal["tener"] = "tener"

    def build(self, size: Size) -> Positions:
        if size.head_width % 2:
            raise ValueError(f"head width is {size.head_width}; tener positions need an even one")
        return TenerPositions(size.heads, size.head_width)
