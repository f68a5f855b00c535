"""One decoding step's self-attention on CUDA: keys are read where they were written, as far as they are written."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _step(
    q_at, k_at, v_at, start, start_step, origin, out_at, qb, qh, kb, kh, ks, vb, vh, vs, H, S, E, scale,
    BS: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    row, head = program // H, program % H
    s, e = tl.arange(0, BS), tl.arange(0, BE)
    written = (s < S) & (s <= tl.load(start + row * start_step))
    there = written[:, None] & (e[None, :] < E)
    writer = tl.load(origin + row * S + s, mask=written, other=0)
    q = tl.load(q_at + row * qb + head * qh + e, mask=e < E, other=0.0).to(tl.float32)
    k_places = writer[:, None] * kb + head * kh + s[:, None] * ks + e[None, :]
    k = tl.load(k_at + k_places, mask=there, other=0.0)
    scores = tl.where(written, tl.sum(k.to(tl.float32) * q[None, :], axis=1) * scale, float("-inf"))
    p = tl.exp(scores - tl.max(scores, axis=0))
    p = p / tl.sum(p, axis=0)
    v_places = writer[:, None] * vb + head * vh + s[:, None] * vs + e[None, :]
    v = tl.load(v_at + v_places, mask=there, other=0.0)
    out = tl.sum(p[:, None] * v.to(tl.float32), axis=0)
    tl.store(out_at + (row * H + head) * E + e, out.to(out_at.dtype.element_ty), mask=e < E)


def slot_attention(q: Tensor, k: Tensor, v: Tensor, start: Tensor, origin: Tensor, scale: float) -> Tensor:
    """Row i looks at slot s as row origin[i, s] wrote it, for all slots up to its position."""
    rows, heads, _, width = q.shape
    slots = k.size(2)
    out = torch.empty(rows, 1, heads, width, dtype=q.dtype, device=q.device)
    step = start.stride(0) if len(start) > 1 else 0
    _step[(rows * heads,)](  # pyright: ignore[reportIndexIssue]
        q, k, v, start, step, origin, out, q.stride(0), q.stride(1), *k.stride()[:3], *v.stride()[:3], heads, slots,
        width, scale, BS=max(16, triton.next_power_of_2(slots)), BE=triton.next_power_of_2(width),
        num_warps=2 if width <= 64 else 4,
    )  # fmt: skip
    return out.transpose(1, 2)
