"""A score: queries look for the nearest keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.model.size import Size


class NearestScore(nn.Module):
    def forward(self, q: Float[Tensor, "b h q e"], k: Float[Tensor, "b h k e"]) -> Float[Tensor, "b h q k"]:
        return -torch.cdist(q.contiguous(), k.contiguous()).square()


@dataclass(frozen=True)
class Nearest:
    """The squared distance of query and key, negative."""

    kind: Literal["nearest"] = "nearest"
    scaled: ClassVar[bool] = False
    rotated: ClassVar[bool] = True

    def build(self, size: Size) -> nn.Module:
        return NearestScore()
