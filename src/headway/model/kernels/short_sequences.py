"""Attention for sentences on CUDA: a whole head fits in one program, so nothing is tiled and nothing is kept.

Flash kernels are made for thousands of tokens; at the thirty of a sentence they do mostly idle work. Here one program
reads a head's queries, keys and values straight from the projection, and backward recomputes the weights.
Imported only where Triton is (see `fused.py`).
"""

# pyright: basic, reportMissingImports=false
# The language of Triton kernels has no types.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

LONGEST = 128  # keys
LARGEST = 64 * 64  # scores of one head


@triton.jit
def _rows(pointer, batch, head, stride_b, stride_h, stride_t, index, features, count):
    where = pointer + batch * stride_b + head * stride_h + index[:, None] * stride_t + features[None, :]
    return tl.load(where, mask=index[:, None] < count, other=0.0)


@triton.jit
def _weights(
    q, k, keys, start, step, batch, t, s, S, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, PLACED: tl.constexpr,
):  # fmt: skip
    scores = tl.dot(q, tl.trans(k)) * scale
    seen = s[None, :] < S
    if MASKED:
        seen = seen & (tl.load(keys + batch * S + s, mask=s < S, other=0)[None, :] != 0)
    if PLACED:
        t = t + tl.load(start + batch * step)
    if CAUSAL:
        seen = seen & (s[None, :] <= t[:, None])
    scores = tl.where(seen, scores, float("-inf"))
    p = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    return p / tl.sum(p, axis=1)[:, None]


@triton.jit
def _forward(
    q_at, k_at, v_at, keys, start, step, out_at, qb, qh, qt, kb, kh, kt, vb, vh, vt, H, T, S, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, PLACED: tl.constexpr,
    BT: tl.constexpr, BS: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    b, h = program // H, program % H
    t, s, e = tl.arange(0, BT), tl.arange(0, BS), tl.arange(0, E)
    q, k = _rows(q_at, b, h, qb, qh, qt, t, e, T), _rows(k_at, b, h, kb, kh, kt, s, e, S)
    v = _rows(v_at, b, h, vb, vh, vt, s, e, S)
    p = _weights(q, k, keys, start, step, b, t, s, S, scale, CAUSAL, MASKED, PLACED)
    out = tl.dot(p.to(v.dtype), v)
    where = out_at + ((b * T + t[:, None]) * H + h) * E + e[None, :]
    tl.store(where, out.to(out_at.dtype.element_ty), mask=t[:, None] < T)


@triton.jit
def _backward(
    q_at, k_at, v_at, keys, start, step, slope_at, dq_at, dk_at, dv_at,
    qb, qh, qt, kb, kh, kt, vb, vh, vt, gb, gh, gt, H, T, S, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, PLACED: tl.constexpr,
    BT: tl.constexpr, BS: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    b, h = program // H, program % H
    t, s, e = tl.arange(0, BT), tl.arange(0, BS), tl.arange(0, E)
    q, k = _rows(q_at, b, h, qb, qh, qt, t, e, T), _rows(k_at, b, h, kb, kh, kt, s, e, S)
    v, g = _rows(v_at, b, h, vb, vh, vt, s, e, S), _rows(slope_at, b, h, gb, gh, gt, t, e, T)
    p = _weights(q, k, keys, start, step, b, t, s, S, scale, CAUSAL, MASKED, PLACED)
    p = tl.where(t[:, None] < T, p, 0.0)
    dv = tl.dot(tl.trans(p).to(g.dtype), g)
    dp = tl.dot(g, tl.trans(v))
    ds = (p * (dp - tl.sum(dp * p, axis=1)[:, None]) * scale).to(q.dtype)
    dq, dk = tl.dot(ds, k), tl.dot(tl.trans(ds), q)
    at_t = ((b * T + t[:, None]) * H + h) * E + e[None, :]
    at_s = ((b * S + s[:, None]) * H + h) * E + e[None, :]
    tl.store(dq_at + at_t, dq.to(dq_at.dtype.element_ty), mask=t[:, None] < T)
    tl.store(dk_at + at_s, dk.to(dk_at.dtype.element_ty), mask=s[:, None] < S)
    tl.store(dv_at + at_s, dv.to(dv_at.dtype.element_ty), mask=s[:, None] < S)


def _blocks(t: int, s: int) -> tuple[int, int, int]:
    rows, columns = max(16, triton.next_power_of_2(t)), max(16, triton.next_power_of_2(s))
    return rows, columns, 4 if rows * columns > 1024 else 2


def _inner(x: Tensor) -> Tensor:
    """Features must lie side by side; all else is told by strides."""
    return x if x.stride(-1) == 1 else x.contiguous()


@triton_op("headway::short_attention", mutates_args={})
def short_attention(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, start: Tensor | None, causal: bool, scale: float
) -> Tensor:
    """softmax(q k^T · scale) v for q [b h t e], k and v [b h s e].

    `keys` [b s] is True where a key may be seen; `start` [b|1 t] holds the positions of queries among the keys.
    """
    q, k, v = _inner(q), _inner(k), _inner(v)
    b, h, t, e = q.shape
    s = k.size(2)
    out = torch.empty(b, t, h, e, dtype=q.dtype, device=q.device)
    rows, columns, warps = _blocks(t, s)
    seen = q if keys is None else keys.contiguous()
    at, step = (q, 0) if start is None else (start, start.stride(0) if len(start) > 1 else 0)
    wrap_triton(_forward)[(b * h,)](
        q, k, v, seen, at, step, out, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], h, t, s, scale,
        CAUSAL=causal, MASKED=keys is not None, PLACED=start is not None, BT=rows, BS=columns, E=e, num_warps=warps,
    )  # fmt: skip
    return out.transpose(1, 2)


@triton_op("headway::short_attention_backward", mutates_args={})
def short_attention_backward(
    slope: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor | None,
    start: Tensor | None,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v, slope = _inner(q), _inner(k), _inner(v), _inner(slope)
    b, h, t, e = q.shape
    s = k.size(2)
    dq = torch.empty(b, t, h, e, dtype=q.dtype, device=q.device)
    dk, dv = (torch.empty(b, s, h, e, dtype=k.dtype, device=k.device) for _ in range(2))
    rows, columns, warps = _blocks(t, s)
    seen = q if keys is None else keys.contiguous()
    at, step = (q, 0) if start is None else (start, start.stride(0) if len(start) > 1 else 0)
    wrap_triton(_backward)[(b * h,)](
        q, k, v, seen, at, step, slope, dq, dk, dv, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
        *slope.stride()[:3], h, t, s, scale, CAUSAL=causal, MASKED=keys is not None, PLACED=start is not None,
        BT=rows, BS=columns, E=e, num_warps=warps,
    )  # fmt: skip
    return dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)


def _remember(ctx, inputs, output) -> None:  # noqa: ANN001, ARG001
    q, k, v, keys, start, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, keys, start)


def _gradients(ctx, slope: Tensor):  # noqa: ANN001, ANN202
    q, k, v, keys, start = ctx.saved_tensors
    dq, dk, dv = short_attention_backward(slope, q, k, v, keys, start, ctx.causal, ctx.scale)
    return dq, dk, dv, None, None, None, None


short_attention.register_autograd(_gradients, setup_context=_remember)  # pyright: ignore
