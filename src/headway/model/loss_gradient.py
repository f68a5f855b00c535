"""The gradient of the loss with respect to the logits on CUDA, in one launch and in place.

The formulas are those of `losses.cross_entropy_gradient` and `losses.symmetric_kl_gradient`. The kernels read the
logits in their own type (usually bf16) and compute in single precision. Written in torch, the same formulas make six
copies of the logits in single precision, and twenty with R-Drop; moving them is most of the last layer's cost. This
module is imported only where Triton is installed.
"""

# pyright: basic, reportMissingImports=false
# The language of Triton kernels has no types.

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

MOST = 2048  # columns that are read together; a whole row stays in the second-level cache


@triton.jit
def _mass(row, label, V, BLOCK: tl.constexpr):
    """The log-sum-exp of a row, its plain sum, and the logit of the label."""
    peak, mass, plain, picked = -float("inf"), 0.0, 0.0, 0.0
    for start in range(0, V, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(row + i, mask=i < V, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(x, axis=0))
        mass = mass * tl.exp(peak - higher) + tl.sum(tl.exp(x - higher), axis=0)
        plain += tl.sum(tl.where(i < V, x, 0.0), axis=0)
        picked += tl.sum(tl.where(i == label, x, 0.0), axis=0)
        peak = higher
    return peak + tl.log(mass), plain, picked


@triton.jit
def _read(row, i, lse, V):
    return tl.load(row + i, mask=i < V, other=-float("inf")).to(tl.float32) - lse


@triton.jit
def _target(i, label, V, smoothing):
    return tl.where(i == label, 1.0 - smoothing, 0.0) + smoothing / V


@triton.jit
def _write(row, i, gradient, V, W):
    tl.store(row + i, tl.where(i < V, gradient, 0.0).to(row.dtype.element_ty), mask=i < W)


@triton.jit
def _one(logits, labels, nll, spread, V, W, smoothing, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    label, row = tl.load(labels + token), logits + token * W
    lse, plain, picked = _mass(row, label, V, BLOCK)
    tl.store(nll + token, lse - picked)
    tl.store(spread + token, lse - plain / V)
    for start in range(0, W, BLOCK):
        i = start + tl.arange(0, BLOCK)
        _write(row, i, tl.exp(_read(row, i, lse, V)) - _target(i, label, V, smoothing), V, W)


@triton.jit
def _two(logits, labels, nll, spread, gaps, N, V, W, smoothing, r_drop, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    label, first, second = tl.load(labels + token), logits + token * W, logits + (N + token) * W
    lse_p, plain_p, picked_p = _mass(first, label, V, BLOCK)
    lse_q, plain_q, picked_q = _mass(second, label, V, BLOCK)
    tl.store(nll + token, lse_p - picked_p)
    tl.store(nll + N + token, lse_q - picked_q)
    tl.store(spread + token, lse_p - plain_p / V)
    tl.store(spread + N + token, lse_q - plain_q / V)
    ahead, behind = 0.0, 0.0
    for start in range(0, V, BLOCK):
        i = start + tl.arange(0, BLOCK)
        log_p, log_q = _read(first, i, lse_p, V), _read(second, i, lse_q, V)
        gap = tl.where(i < V, log_p - log_q, 0.0)
        ahead += tl.sum(tl.exp(log_p) * gap, axis=0)
        behind -= tl.sum(tl.exp(log_q) * gap, axis=0)
    tl.store(gaps + token, (ahead + behind) / 2)
    for start in range(0, W, BLOCK):
        i = start + tl.arange(0, BLOCK)
        log_p, log_q = _read(first, i, lse_p, V), _read(second, i, lse_q, V)
        gap, p, q = tl.where(i < V, log_p - log_q, 0.0), tl.exp(log_p), tl.exp(log_q)
        target, share = _target(i, label, V, smoothing), r_drop / 2
        _write(first, i, p - target + share * (p * (gap - ahead) + (p - q)), V, W)
        _write(second, i, q - target + share * (q * (-gap - behind) + (q - p)), V, W)


@cache
def kernel_works(device: torch.device) -> bool:
    """Whether the kernel runs on this device: Triton may lack a compiler, or not support the card."""
    try:
        gradient_in_place(
            torch.zeros(1, 16, device=device), torch.zeros(1, dtype=torch.long, device=device), 16, 0.0, 0.0
        )
    except Exception:  # noqa: BLE001
        return False
    return True


def gradient_in_place(
    logits: Float[Tensor, "m w"], labels: Int[Tensor, "n"], vocabulary: int, smoothing: float, r_drop: float
) -> tuple[Float[Tensor, "m"], Float[Tensor, "m"], Float[Tensor, "n"]]:
    """The cross-entropy of every row, its cross-entropy with the uniform target, and the symmetric KL of every token.

    The logits are overwritten by their gradient; columns past the vocabulary become zero.
    """
    assert logits.is_contiguous() and labels.is_contiguous()
    count, width = len(labels), logits.size(1)
    nll, spread = logits.new_empty(2, len(logits), dtype=torch.float32)
    gaps = nll.new_zeros(count)
    block = max(64, min(MOST, triton.next_power_of_2(width)))
    shape = {"BLOCK": block, "num_warps": max(1, block // 256)}
    given = logits, labels, nll, spread
    if len(logits) == count:
        _one[(count,)](*given, vocabulary, width, smoothing, **shape)  # pyright: ignore[reportIndexIssue]
    else:
        _two[(count,)](*given, gaps, count, vocabulary, width, smoothing, r_drop, **shape)  # pyright: ignore[reportIndexIssue]
    return nll, spread, gaps
