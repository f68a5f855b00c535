"""How well a query fits a key: score functions for the reference kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.size import Size

Q = Float[Tensor, "b h q e"]
K = Float[Tensor, "b h k e"]
Scores = Float[Tensor, "b h q k"]


class DotScore(nn.Module):
    """q k^T, times a scale."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, q: Q, k: K) -> Scores:
        return (q * self.scale) @ k.transpose(-1, -2)


class CosineScore(nn.Module):
    """The cosine of the angle, sharpened by a learned factor for every head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.full((heads, 1, 1), 10.0))

    def forward(self, q: Q, k: K) -> Scores:
        return self.sharpness * (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2))


class AdditiveScore(nn.Module):
    """v^T tanh(W q + U k), a small network (Bahdanau et al. 2015). Holds b·h·q·k·e numbers: for small models."""

    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        self.w, self.u = (nn.Parameter(torch.randn(heads, head_width, head_width) * head_width**-0.5) for _ in "wu")
        self.v = nn.Parameter(torch.randn(heads, head_width) * head_width**-0.5)

    def forward(self, q: Q, k: K) -> Scores:
        mixed = torch.tanh((q @ self.w)[:, :, :, None] + (k @ self.u)[:, :, None])
        return torch.einsum("bhqke,he->bhqk", mixed, self.v)


@dataclass(frozen=True)
class ScaledDot:
    """q k^T / sqrt(e), the paper's."""

    kind: Literal["scaled_dot"] = "scaled_dot"
    scaled: ClassVar[bool] = True
    rotated: ClassVar[bool] = True

    def build(self, size: Size) -> nn.Module:
        return DotScore(size.head_width**-0.5)


@dataclass(frozen=True)
class Dot:
    """q k^T, unscaled."""

    kind: Literal["dot"] = "dot"
    scaled: ClassVar[bool] = False
    rotated: ClassVar[bool] = True

    def build(self, size: Size) -> nn.Module:
        return DotScore(1.0)


@dataclass(frozen=True)
class Cosine:
    """The cosine of query and key, with a learned sharpness."""

    kind: Literal["cosine"] = "cosine"
    scaled: ClassVar[bool] = True
    rotated: ClassVar[bool] = True

    def build(self, size: Size) -> nn.Module:
        return CosineScore(size.heads)


@dataclass(frozen=True)
class Additive:
    """A small network of query and key."""

    kind: Literal["additive"] = "additive"
    scaled: ClassVar[bool] = True
    rotated: ClassVar[bool] = False  # a network of q and k is not a function of their angle

    def build(self, size: Size) -> nn.Module:
        return AdditiveScore(size.heads, size.head_width)


Score = ScaledDot | Dot | Cosine | Additive
