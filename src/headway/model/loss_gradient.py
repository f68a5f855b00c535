"""The slopes of the loss by the logits on CUDA, in one launch and in the logits' own place.

The same formulas as `losses.smoothed_slope` and `losses.disagreement`, read from the logits as they are (bf16, mostly)
and reckoned in single precision. Written out in torch they make six copies of the logits in single precision, with
R-Drop twenty; moving those is most of what the last layer costs. Imported only where Triton is.
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

MOST = 2048  # pieces looked at together; a row of all of them stays in the chip's second cache


@triton.jit
def _mass(row, label, V, BLOCK: tl.constexpr):
    """The logarithm of the sum of exponentials of a row, its plain sum, and what stands at the label."""
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
def _write(row, i, slope, V, W):
    tl.store(row + i, tl.where(i < V, slope, 0.0).to(row.dtype.element_ty), mask=i < W)


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
def _two(logits, labels, nll, spread, gaps, N, V, W, smoothing, agreement, BLOCK: tl.constexpr):
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
        target, share = _target(i, label, V, smoothing), agreement / 2
        _write(first, i, p - target + share * (p * (gap - ahead) + (p - q)), V, W)
        _write(second, i, q - target + share * (q * (-gap - behind) + (q - p)), V, W)


@cache
def kernel_works(device: torch.device) -> bool:
    """Triton may be there without a compiler, or for another card; then torch does it."""
    try:
        slopes_in_place(
            torch.zeros(1, 16, device=device), torch.zeros(1, dtype=torch.long, device=device), 16, 0.0, 0.0
        )
    except Exception:  # noqa: BLE001
        return False
    return True


def slopes_in_place(
    logits: Float[Tensor, "m w"], labels: Int[Tensor, "n"], vocabulary: int, smoothing: float, agreement: float
) -> tuple[Float[Tensor, "m"], Float[Tensor, "m"], Float[Tensor, "n"]]:
    """Of every row the cross-entropy and that against all pieces alike, of every token how far its two readings are
    apart. The logits become their slopes; columns past the vocabulary become zero."""
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
        _two[(count,)](*given, gaps, count, vocabulary, width, smoothing, agreement, **shape)  # pyright: ignore[reportIndexIssue]
    return nll, spread, gaps
