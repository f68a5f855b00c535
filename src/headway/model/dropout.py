"""Dropout, with random bits drawn four at a time on the CPU."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.size import check_share

RESOLUTION = 1 << 16


def random_shorts(count: int) -> Tensor:
    """16-bit random numbers from torch's generator. One draw of 64 bits serves four: the CPU's draw is serial."""
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    return draws.view(torch.int16)[:count]


class Dropout(nn.Module):
    """Set a share of the features to zero while training and scale the rest up (Srivastava et al. 2014).

    Where it is locked the features are the same at every position of a sequence (Gal and Ghahramani 2016): noise that
    differs from one position to the next can be averaged away by looking at many of them, this cannot.
    """

    def __init__(self, share: float, locked: bool = False) -> None:
        super().__init__()
        check_share("dropout", share)
        self.share, self.locked = share, locked

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.share == 0:
            return x
        return x * self.drop(torch.ones_like(x[..., :1, :])) if self.locked else self.drop(x)

    def drop(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.share)
        dropped = round(self.share * RESOLUTION)
        keep = random_shorts(x.numel()).view(x.shape) >= dropped - RESOLUTION // 2
        return x * keep.to(x.dtype).mul_(RESOLUTION / (RESOLUTION - dropped))

    def extra_repr(self) -> str:
        return f"{self.share}{', locked' if self.locked else ''}"
