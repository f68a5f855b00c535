"""The position-wise feed-forward layer: think about each token alone (section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.dropout import Dropout
from headway.model.size import Size, check_range, check_share

Stream = Float[Tensor, "b t d"]
Drop = Callable[[float], nn.Module]

WIDEST = 1_000_000


class ReluLayer(nn.Module):
    """max(0, x W1 + b1) W2 + b2."""

    def __init__(self, width: int, inner: int, bias: bool, dropout: nn.Module) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, inner, bias=bias), nn.Linear(inner, width, bias=bias)
        self.dropout = dropout

    def forward(self, x: Stream) -> Stream:
        return self.down(self.dropout(F.relu(self.up(x))))


class SwishLayer(ReluLayer):
    """The same with x · sigmoid(x) (Ramachandran et al. 2017), as in Marian's published models."""

    def forward(self, x: Stream) -> Stream:
        return self.down(self.dropout(F.silu(self.up(x))))


class GeluLayer(ReluLayer):
    """The same with a smooth step (Hendrycks and Gimpel 2016); `tanh` is GPT-2's approximation."""

    def __init__(self, width: int, inner: int, bias: bool, dropout: nn.Module, tanh: bool) -> None:
        super().__init__(width, inner, bias, dropout)
        self.approximate = "tanh" if tanh else "none"

    def forward(self, x: Stream) -> Stream:
        return self.down(self.dropout(F.gelu(self.up(x), approximate=self.approximate)))


class SwigluLayer(nn.Module):
    """(silu(x W) * x V) W2: one half opens and closes the other (Shazeer 2020). `up` holds W, then V."""

    def __init__(self, width: int, inner: int, bias: bool, dropout: nn.Module) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * inner, bias=bias), nn.Linear(inner, width, bias=bias)
        self.dropout = dropout

    def forward(self, x: Stream) -> Stream:
        gate, value = self.up(x).chunk(2, dim=-1)
        return self.down(self.dropout(F.silu(gate) * value))


def check_inner(width: int | None, dropout: float) -> None:
    check_range("width", 1 if width is None else width, 1, WIDEST)
    check_share("dropout", dropout)


@dataclass(frozen=True)
class Relu:
    """Two matrices with a rectifier between them, the paper's."""

    kind: Literal["relu"] = "relu"
    width: int | None = None  # inner width; unset: 4 times the model's
    dropout: float = 0.0  # dropout probability on the inner vectors

    def __post_init__(self) -> None:
        check_inner(self.width, self.dropout)

    def build(self, size: Size, bias: bool, drop: Drop = Dropout) -> nn.Module:
        return ReluLayer(size.width, self.width or 4 * size.width, bias, drop(self.dropout))


@dataclass(frozen=True)
class Swish:
    """Two matrices with x · sigmoid(x) between them."""

    kind: Literal["swish"] = "swish"
    width: int | None = None  # inner width; unset: 4 times the model's
    dropout: float = 0.0  # dropout probability on the inner vectors

    def __post_init__(self) -> None:
        check_inner(self.width, self.dropout)

    def build(self, size: Size, bias: bool, drop: Drop = Dropout) -> nn.Module:
        return SwishLayer(size.width, self.width or 4 * size.width, bias, drop(self.dropout))


@dataclass(frozen=True)
class Gelu:
    """Two matrices with a smooth rectifier."""

    kind: Literal["gelu"] = "gelu"
    width: int | None = None  # inner width; unset: 4 times the model's
    dropout: float = 0.0  # dropout probability on the inner vectors
    tanh: bool = False  # use the tanh approximation of GPT-2

    def __post_init__(self) -> None:
        check_inner(self.width, self.dropout)

    def build(self, size: Size, bias: bool, drop: Drop = Dropout) -> nn.Module:
        return GeluLayer(size.width, self.width or 4 * size.width, bias, drop(self.dropout), self.tanh)


@dataclass(frozen=True)
class Swiglu:
    """Three matrices, one of them a gate; LLaMA's."""

    kind: Literal["swiglu"] = "swiglu"
    width: int | None = None  # inner width; unset: 8/3 of the model's, rounded up to a multiple of 32
    dropout: float = 0.0  # dropout probability on the inner vectors

    def __post_init__(self) -> None:
        check_inner(self.width, self.dropout)

    def build(self, size: Size, bias: bool, drop: Drop = Dropout) -> nn.Module:
        inner = self.width or -(-8 * size.width // (3 * 32)) * 32
        return SwigluLayer(size.width, inner, bias, drop(self.dropout))


FeedForward = Relu | Gelu | Swish | Swiglu
