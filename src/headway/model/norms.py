"""Norms: bring the features of every token to one scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headway.model.size import check_range

Real = Bool[Tensor, "b t"] | None


class Layer(nn.LayerNorm):
    """Over the features of one token, whatever the batch or the length (Ba et al. 2016)."""

    def forward(self, input: Float[Tensor, "*b d"], real: Real = None) -> Float[Tensor, "*b d"]:
        return super().forward(input)


class RMS(nn.RMSNorm):
    """Divide by the root mean square; no mean, no bias (Zhang and Sennrich 2019)."""

    def forward(self, x: Float[Tensor, "*b d"], real: Real = None) -> Float[Tensor, "*b d"]:
        return super().forward(x)


class Batch(nn.BatchNorm1d):
    """Over the tokens of the batch, padding left out. For comparison: it depends on its neighbours."""

    def forward(self, input: Float[Tensor, "b t d"], real: Real = None) -> Float[Tensor, "b t d"]:
        x = input.to(torch.promote_types(input.dtype, torch.float32))
        weight = torch.ones_like(x[..., :1]) if real is None else real[..., None].to(x.dtype)
        mean, variance = self.measure(x, weight) if self.training else (self.running_mean, self.running_var)
        assert mean is not None and variance is not None
        normed = (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias
        return (normed * weight).to(input.dtype)

    def measure(self, x: Float[Tensor, "b t d"], weight: Float[Tensor, "b t 1"]) -> tuple[Tensor, Tensor]:
        """Mean and variance, which the running ones follow. Sums under a mask: the device is never waited for."""
        count = weight.sum().clamp(min=1)
        mean = (x * weight).sum(dim=(0, 1)) / count
        variance = ((x - mean).square() * weight).sum(dim=(0, 1)) / count
        self.follow(mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
        return mean, variance

    @torch.no_grad()
    def follow(self, mean: Float[Tensor, "d"], variance: Float[Tensor, "d"]) -> None:
        held = self.running_mean, self.running_var, self.num_batches_tracked, self.momentum
        assert not any(part is None for part in held)
        self.running_mean.lerp_(mean, self.momentum)  # pyright: ignore
        self.running_var.lerp_(variance, self.momentum)  # pyright: ignore
        self.num_batches_tracked.add_(1)  # pyright: ignore


@dataclass(frozen=True)
class LayerNorm:
    """Layer normalisation, the paper's."""

    kind: Literal["layer"] = "layer"
    epsilon: float = 1e-5  # added to the variance

    def __post_init__(self) -> None:
        check_range("epsilon", self.epsilon, 0, 1)

    def build(self, width: int) -> nn.Module:
        return Layer(width, eps=self.epsilon)


@dataclass(frozen=True)
class RMSNorm:
    """Root-mean-square normalisation, LLaMA's."""

    kind: Literal["rms"] = "rms"
    epsilon: float = 1e-6  # added to the mean square

    def __post_init__(self) -> None:
        check_range("epsilon", self.epsilon, 0, 1)

    def build(self, width: int) -> nn.Module:
        return RMS(width, eps=self.epsilon)


@dataclass(frozen=True)
class BatchNorm:
    """Batch normalisation, for comparison."""

    kind: Literal["batch"] = "batch"
    epsilon: float = 1e-5  # added to the variance
    momentum: float = 0.1  # weight of a new batch in the running mean and variance

    def __post_init__(self) -> None:
        check_range("epsilon", self.epsilon, 0, 1)
        check_range("momentum", self.momentum, 0, 1)

    def build(self, width: int) -> nn.Module:
        return Batch(width, eps=self.epsilon, momentum=self.momentum)


Norm = LayerNorm | RMSNorm | BatchNorm
