"""Linformer: n keys projected to r, so attention costs n·r (Wang et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from headway.model.dropout import Dropout
from headway.model.kernels.base import Bias, Kernel, KeysOf, Queries
from headway.model.mask import Mask
from headway.model.size import Size, check_range
from headway.model.states import State


class LinformerKernel(Kernel):
    """Mixes keys along the sequence before scoring, so it can hide neither the future nor a single key's score."""

    biased: ClassVar[bool] = False
    rotated: bool = False
    causal: ClassVar[bool] = False

    def __init__(self, longest: int, rank: int, shared: bool, dropout: float) -> None:
        super().__init__()
        self.longest, self.dropout = longest, Dropout(dropout)
        self.shrink_k = nn.Parameter(torch.randn(longest, rank) * longest**-0.5)
        self.shrink_v = self.shrink_k if shared else nn.Parameter(torch.randn(longest, rank) * longest**-0.5)
        self.weights = nn.Identity()

    def shrink(self, x: Tensor, how: Tensor) -> Tensor:
        return torch.einsum("bhke,kr->bhre", x, how[: x.size(2)].to(x.dtype))

    def forward(self, q: Queries, k: KeysOf, v: KeysOf, mask: Mask, bias: Bias, state: State) -> Queries:
        if mask.keys is not None:
            k, v = (x * mask.keys[:, None, :, None] for x in (k, v))
        k, v = self.shrink(k, self.shrink_k), self.shrink(v, self.shrink_v)
        scores = (q * q.size(-1) ** -0.5) @ k.transpose(-1, -2)
        return self.dropout(self.weights(scores.softmax(dim=-1))) @ v


@dataclass(frozen=True)
class Linformer:
    """Low-rank attention for encoders; the model's `longest` is a hard limit."""

    kind: Literal["linformer"] = "linformer"
    rank: int = 64  # number of positions that keys and values are projected to
    shared: bool = True  # use one projection for keys and values

    def __post_init__(self) -> None:
        check_range("rank", self.rank, 1, 1_000_000)

    def build(self, size: Size, dropout: float) -> Kernel:
        return LinformerKernel(size.longest, self.rank, self.shared, dropout)
