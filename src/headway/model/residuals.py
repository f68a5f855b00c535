"""Add & Norm: how a sublayer joins the stream. `(x, sublayer) -> x`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.model.norms import Norm, Real
from headway.model.size import Size

Stream = Float[Tensor, "b t d"]
Sublayer = Callable[[Tensor], Tensor]


class PostNorm(nn.Module):
    """LayerNorm(x + Sublayer(x)), the paper's (section 3.1). With `weight` > 1 it is DeepNorm (Wang et al. 2022)."""

    def __init__(self, norm: nn.Module, dropout: nn.Module, weight: float = 1.0) -> None:
        super().__init__()
        self.norm, self.dropout, self.weight = norm, dropout, weight

    def forward(self, x: Stream, sublayer: Sublayer, real: Real = None) -> Stream:
        stream = x if self.weight == 1.0 else self.weight * x
        return self.norm(stream + self.dropout(sublayer(x)), real)


class PreNorm(nn.Module):
    """x + Sublayer(LayerNorm(x)): the stream itself is never normalised."""

    def __init__(self, norm: nn.Module, dropout: nn.Module) -> None:
        super().__init__()
        self.norm, self.dropout = norm, dropout

    def forward(self, x: Stream, sublayer: Sublayer, real: Real = None) -> Stream:
        return x + self.dropout(sublayer(self.norm(x, real)))


class SandwichNorm(nn.Module):
    """A norm before and a norm after the sublayer, inside the residual (Ding et al. 2021)."""

    def __init__(self, before: nn.Module, after: nn.Module, dropout: nn.Module) -> None:
        super().__init__()
        self.before, self.after, self.dropout = before, after, dropout

    def forward(self, x: Stream, sublayer: Sublayer, real: Real = None) -> Stream:
        return x + self.dropout(self.after(sublayer(self.before(x, real)), real))


class ReZeroResidual(nn.Module):
    """x + alpha * Sublayer(x), alpha begins at zero; no norm at all (Bachlechner et al. 2020)."""

    def __init__(self, dropout: nn.Module) -> None:
        super().__init__()
        self.alpha, self.dropout = nn.Parameter(torch.zeros(())), dropout

    def forward(self, x: Stream, sublayer: Sublayer, real: Real = None) -> Stream:
        return x + self.alpha * self.dropout(sublayer(x))


@dataclass(frozen=True)
class Placement:
    """What the placements share: whether a last norm follows the stack, and how weights begin."""

    last_norm: ClassVar[bool] = False

    def gain(self, size: Size, decoder: bool) -> float:
        """By how much the initial values of values, outputs and feed-forward layers are scaled."""
        return 1.0


@dataclass(frozen=True)
class Post(Placement):
    """Norm after the sum, the paper's."""

    kind: Literal["post"] = "post"

    def build(self, norm: Norm, size: Size, dropout: nn.Module, decoder: bool) -> nn.Module:
        return PostNorm(norm.build(size.width), dropout)


@dataclass(frozen=True)
class Pre(Placement):
    """Norm before the sublayer: easier to train deep."""

    kind: Literal["pre"] = "pre"
    last_norm: ClassVar[bool] = True

    def build(self, norm: Norm, size: Size, dropout: nn.Module, decoder: bool) -> nn.Module:
        return PreNorm(norm.build(size.width), dropout)


@dataclass(frozen=True)
class Sandwich(Placement):
    """Norm before and after."""

    kind: Literal["sandwich"] = "sandwich"
    last_norm: ClassVar[bool] = True

    def build(self, norm: Norm, size: Size, dropout: nn.Module, decoder: bool) -> nn.Module:
        return SandwichNorm(norm.build(size.width), norm.build(size.width), dropout)


@dataclass(frozen=True)
class DeepNorm(Placement):
    """Post-norm with a heavier stream and lighter initial sublayers; table 1 of the paper gives the constants."""

    kind: Literal["deep"] = "deep"

    def build(self, norm: Norm, size: Size, dropout: nn.Module, decoder: bool) -> nn.Module:
        return PostNorm(norm.build(size.width), dropout, weight=self.constants(size, decoder)[0])

    def gain(self, size: Size, decoder: bool) -> float:
        return self.constants(size, decoder)[1]

    def constants(self, size: Size, decoder: bool) -> tuple[float, float]:
        n, m = size.encoder_layers, size.decoder_layers
        if not (n and m):
            alone = n or m
            return (2 * alone) ** 0.25, (8 * alone) ** -0.25
        if decoder:
            return (3 * m) ** 0.25, (12 * m) ** -0.25
        return 0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16)


@dataclass(frozen=True)
class ReZero(Placement):
    """No norm; every sublayer begins switched off."""

    kind: Literal["rezero"] = "rezero"

    def build(self, norm: Norm, size: Size, dropout: nn.Module, decoder: bool) -> nn.Module:
        return ReZeroResidual(dropout)


Residual = Post | Pre | Sandwich | DeepNorm | ReZero
