"""Norms: bring the features of every token to one scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Real = Bool[Tensor, "b t"] | None


class Layer(nn.LayerNorm):
    """Over the features of one token, whatever the batch or the length (Ba et al. 2016)."""

    def forward(self, x: Float[Tensor, "*b d"], real: Real = None) -> Float[Tensor, "*b d"]:
        return super().forward(x)


class RMS(nn.RMSNorm):
    """Divide by the root mean square; no mean, no bias (Zhang and Sennrich 2019)."""

    def forward(self, x: Float[Tensor, "*b d"], real: Real = None) -> Float[Tensor, "*b d"]:
        return super().forward(x)


class Batch(nn.BatchNorm1d):
    """Over the tokens of the batch, padding left out. For comparison: it depends on its neighbours."""

    def forward(self, x: Float[Tensor, "b t d"], real: Real = None) -> Float[Tensor, "b t d"]:
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if real is None else real
        normed = super().forward(x[real])
        return torch.zeros_like(x, dtype=normed.dtype).masked_scatter(real[..., None], normed)


@dataclass(frozen=True)
class LayerNorm:
    """Layer normalisation, the paper's."""

    kind: Literal["layer"] = "layer"
    epsilon: float = 1e-5  # added to the variance

    def build(self, width: int) -> nn.Module:
        return Layer(width, eps=self.epsilon)


@dataclass(frozen=True)
class RMSNorm:
    """Root-mean-square normalisation, LLaMA's."""

    kind: Literal["rms"] = "rms"
    epsilon: float = 1e-6  # added to the mean square

    def build(self, width: int) -> nn.Module:
        return RMS(width, eps=self.epsilon)


@dataclass(frozen=True)
class BatchNorm:
    """Batch normalisation, for comparison."""

    kind: Literal["batch"] = "batch"
    epsilon: float = 1e-5  # added to the variance
    momentum: float = 0.1  # how fast the running mean follows

    def build(self, width: int) -> nn.Module:
        return Batch(width, eps=self.epsilon, momentum=self.momentum)


Norm = LayerNorm | RMSNorm | BatchNorm
