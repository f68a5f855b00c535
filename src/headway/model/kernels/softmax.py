"""The reference kernel: softmax(Q K^T / sqrt(e)) V, equation 1, written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from headway.model.dropout import Dropout
from headway.model.kernels.base import Bias, Kernel, KeysOf, Queries
from headway.model.kernels.scores import ScaledDot, Score
from headway.model.mask import Mask
from headway.model.size import Size
from headway.model.states import State


class SoftmaxKernel(Kernel):
    """Every exact kernel must agree with this one."""

    def __init__(self, score: nn.Module, scaled: bool, rotated: bool, dropout: float) -> None:
        super().__init__()
        self.score, self.scaled, self.rotated, self.dropout = score, scaled, rotated, Dropout(dropout)
        self.weights = nn.Identity()  # a place to hang a hook: `inspect` records what passes here

    def forward(self, q: Queries, k: KeysOf, v: KeysOf, mask: Mask, bias: Bias, state: State) -> Queries:
        scores = self.score(q, k)
        scores = scores if bias is None else scores + bias
        seen = mask.dense()
        scores = scores if seen is None else scores.masked_fill(~seen, -torch.inf)
        return self.dropout(self.weights(scores.softmax(dim=-1))) @ v


@dataclass(frozen=True)
class Softmax:
    """Written out, with a choice of score. Slower than fused; the one to read."""

    kind: Literal["softmax"] = "softmax"
    score: Score = ScaledDot()  # scaled_dot, dot, cosine or additive

    def build(self, size: Size, dropout: float) -> Kernel:
        return SoftmaxKernel(self.score.build(size), self.score.scaled, self.score.rotated, dropout)
