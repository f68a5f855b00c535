"""The same function through PyTorch's fused kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional as F

from headway.model.kernels.base import Bias, Kernel, KeysOf, Queries
from headway.model.kernels.scores import DotScore
from headway.model.kernels.softmax import SoftmaxKernel
from headway.model.mask import Mask
from headway.model.size import Size
from headway.model.states import State

try:  # on machines with Triton; imported here, as torch.compile cannot follow an import
    from headway.model.kernels.short_sequences import LARGEST, LONGEST, short_attention
except ImportError:
    LARGEST, LONGEST, short_attention = 0, 0, None  # pyright: ignore[reportConstantRedefinition]

LONGEST_WRITTEN_OUT = 256  # keys; beyond, the fused kernel's forward wins


def fits_short(q: Queries, k: KeysOf) -> bool:
    """Whether whole heads fit in one program on CUDA, in half precision: nearly all sentences do."""
    if not q.is_cuda or q.dtype in (torch.float32, torch.float64):
        return False
    return k.size(2) <= LONGEST and max(16, q.size(2)) * max(16, k.size(2)) <= LARGEST and q.size(3) in (16, 32, 64)


def slow_in_half(q: Queries, k: KeysOf) -> bool:
    """On a CPU in half precision the fused kernel's backward takes up to ten times as long as writing it out."""
    return q.device.type == "cpu" and q.dtype in (torch.bfloat16, torch.float16) and k.size(2) <= LONGEST_WRITTEN_OUT


def written_out(
    q: Queries, k: KeysOf, v: KeysOf, seen: Bool[Tensor, "#b 1 #q k"] | None, bias: Bias, dropout: float, scale: float
) -> Queries:
    scores = (q * scale) @ k.transpose(-1, -2)
    scores = scores if bias is None else scores + bias
    scores = scores if seen is None else scores.masked_fill(~seen, -torch.inf)
    return F.dropout(scores.softmax(dim=-1), dropout).to(v.dtype) @ v


class FusedKernel(Kernel):
    """Reaches the flash path whenever the mask allows: no mask at all, or a plainly causal one."""

    def __init__(self, scale: float, scaled: bool, dropout: float) -> None:
        super().__init__()
        self.scale, self.scaled, self.dropout = scale, scaled, dropout

    def forward(self, q: Queries, k: KeysOf, v: KeysOf, mask: Mask, bias: Bias, state: State) -> Queries:
        dropout = self.dropout if self.training else 0.0
        in_order = not mask.causal or mask.q_pos is mask.k_pos
        if short_attention is not None and bias is None and dropout == 0.0 and in_order and fits_short(q, k):
            return short_attention(q, k, v, mask.keys, None, mask.causal, self.scale)
        if slow_in_half(q, k):
            return written_out(q, k, v, mask.dense(), bias, dropout, self.scale)
        if bias is None and mask.plainly_causal:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=self.scale)
        allowed = mask.dense()
        if bias is not None:
            allowed = bias if allowed is None else torch.where(allowed, bias, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout, scale=self.scale)

    def reference(self) -> SoftmaxKernel:
        """The written-out kernel that computes the same, for looking inside."""
        twin = SoftmaxKernel(DotScore(self.scale), self.scaled, self.rotated, self.dropout)
        return twin.train(self.training)


@dataclass(frozen=True)
class Fused:
    """Scaled dot-product attention by the fastest kernel the machine has."""

    kind: Literal["fused"] = "fused"
    scaled: bool = True  # divide scores by the square root of the head width, as the paper does

    def build(self, size: Size, dropout: float) -> Kernel:
        return FusedKernel(size.head_width**-0.5 if self.scaled else 1.0, self.scaled, dropout)
