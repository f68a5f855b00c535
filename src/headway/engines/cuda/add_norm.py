"""Between the products of a decoding step on CUDA: pieces to vectors, and add & norm, a launch each."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from headway.model.norms import RMS, Layer

Norm = Layer | RMS | None


@triton.jit
def _normed(x, inside, i, D, gain, bias, epsilon, CENTRED: tl.constexpr):
    if CENTRED:
        x = tl.where(inside, x - tl.sum(x, axis=0) / D, 0.0)
    x = x / tl.sqrt(tl.sum(x * x, axis=0) / D + epsilon)
    x = x * tl.load(gain + i, mask=inside, other=0.0).to(tl.float32)
    if CENTRED:
        x = x + tl.load(bias + i, mask=inside, other=0.0).to(tl.float32)
    return x


@triton.jit
def _join(
    stream, new, summed, normed, gain, bias, weight, epsilon, D,
    SUMMED: tl.constexpr, NORMED: tl.constexpr, CENTRED: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BD)
    inside = i < D
    x = tl.load(stream + row * D + i, mask=inside, other=0.0).to(tl.float32) * weight
    x = x + tl.load(new + row * D + i, mask=inside, other=0.0).to(tl.float32)
    if SUMMED:
        tl.store(summed + row * D + i, x.to(summed.dtype.element_ty), mask=inside)
    if NORMED:
        x = _normed(x, inside, i, D, gain, bias, epsilon, CENTRED)
        tl.store(normed + row * D + i, x.to(normed.dtype.element_ty), mask=inside)


@triton.jit
def _enter(
    last, step, owner, table, places, summed, normed, gain, bias, scale, epsilon, BEAM, D,
    NORMED: tl.constexpr, CENTRED: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BD)
    inside = i < D
    sentence = tl.load(owner + row // BEAM).to(tl.int64)
    piece = tl.load(last + sentence * BEAM + row % BEAM).to(tl.int64)
    place = tl.load(step + sentence).to(tl.int64)
    x = tl.load(table + piece * D + i, mask=inside, other=0.0).to(tl.float32) * scale
    x = x + tl.load(places + place * D + i, mask=inside, other=0.0).to(tl.float32)
    tl.store(summed + row * D + i, x.to(summed.dtype.element_ty), mask=inside)
    if NORMED:
        x = _normed(x, inside, i, D, gain, bias, epsilon, CENTRED)
        tl.store(normed + row * D + i, x.to(normed.dtype.element_ty), mask=inside)


def _warps(block: int) -> int:
    return min(8, max(1, block // 256))


def _numbers(norm: Norm, unused: Tensor) -> tuple[Tensor, Tensor, float]:
    """Gain, bias and epsilon; where there are none, anything."""
    if norm is None:
        return unused, unused, 0.0
    return norm.weight, norm.bias if isinstance(norm, Layer) else unused, norm.eps or 0.0


def join(stream: Tensor, new: Tensor, weight: float, norm: Norm, summed: bool) -> tuple[Tensor, Tensor]:
    """weight · stream + new, and its norm. Without a norm both are the sum; not `summed`, both are the norm."""
    rows, width = new.shape
    normed = torch.empty_like(new)
    total = torch.empty_like(new) if summed and norm is not None else normed
    gain, bias, epsilon = _numbers(norm, new)
    block = triton.next_power_of_2(width)
    _join[(rows,)](  # pyright: ignore[reportIndexIssue]
        stream, new, total, normed, gain, bias, weight, epsilon, width, SUMMED=summed or norm is None,
        NORMED=norm is not None, CENTRED=isinstance(norm, Layer), BD=block, num_warps=_warps(block),
    )  # fmt: skip
    return total, normed


def enter(
    last: Tensor, step: Tensor, owner: Tensor, table: Tensor, scale: float, places: Tensor, norm: Norm
) -> tuple[Tensor, Tensor]:
    """scale · table[last] + places[step], and its norm if there is one. `last` [b w], `step` [b], `owner` [l]."""
    beam, width = last.size(1), table.size(1)
    rows = len(owner) * beam
    summed = torch.empty(rows, width, dtype=table.dtype, device=table.device)
    normed = summed if norm is None else torch.empty_like(summed)
    gain, bias, epsilon = _numbers(norm, table)
    block = triton.next_power_of_2(width)
    _enter[(rows,)](  # pyright: ignore[reportIndexIssue]
        last, step, owner, table, places, summed, normed, gain, bias, scale, epsilon, beam, width,
        NORMED=norm is not None, CENTRED=isinstance(norm, Layer), BD=block, num_warps=_warps(block),
    )  # fmt: skip
    return summed, normed
