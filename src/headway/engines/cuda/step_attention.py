"""One decoding step's attention on CUDA, a launch each: to what a row has written, and to its source.

Features lie side by side; a softmax is taken over chunks of keys, so any length fits and no slot is read that was
never written. Imported only where Triton is.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _own(
    qkv, k_at, v_at, origin, owner, step, out, BEAM, H, GROUPS, ROWS, ROOM, scale,
    FOLLOW: tl.constexpr, BS: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    row, head = program // H, program % H
    lane = row // BEAM
    pos = tl.load(step + tl.load(owner + lane))
    s, e = tl.arange(0, BS), tl.arange(0, E)
    key_heads = H // GROUPS
    key_head = head // GROUPS
    new = qkv + row * (H + 2 * key_heads) * E + e
    q = tl.load(new + head * E).to(tl.float32) * scale
    k_new = tl.load(new + (H + key_head) * E)
    v_new = tl.load(new + (H + key_heads + key_head) * E)
    place = ((row * key_heads + key_head) * ROOM + pos) * E + e
    first_of_group = (head == key_head * GROUPS) & (pos < ROOM)  # once a group, and never past the end
    tl.store(k_at + place, k_new, mask=(e < E) & first_of_group)
    tl.store(v_at + place, v_new, mask=(e < E) & first_of_group)
    # the newest key comes from the projection itself, the others from where they were written
    best = tl.sum(q * k_new.to(tl.float32), axis=0)
    total = 1.0
    mixed = v_new.to(tl.float32)
    table = origin + ((pos % 2).to(tl.int64) * ROWS + row) * ROOM
    for first in range(0, pos, BS):
        slot = first + s
        written = slot < pos
        writer = row + tl.zeros([BS], dtype=tl.int64)
        if FOLLOW:
            writer = lane * BEAM + tl.load(table + slot, mask=written, other=0)
        places = ((writer * key_heads + key_head) * ROOM + slot)[:, None] * E + e[None, :]
        k = tl.load(k_at + places, mask=written[:, None], other=0.0).to(tl.float32)
        v = tl.load(v_at + places, mask=written[:, None], other=0.0).to(tl.float32)
        scores = tl.where(written, tl.sum(k * q[None, :], axis=1), float("-inf"))
        higher = tl.maximum(best, tl.max(scores, axis=0))
        p = tl.exp(scores - higher)
        shrink = tl.exp(best - higher)
        total = total * shrink + tl.sum(p, axis=0)
        mixed = mixed * shrink + tl.sum(p[:, None] * v, axis=0)
        best = higher
    tl.store(out + program * E + e, (mixed / total).to(out.dtype.element_ty))


def own_attention(
    qkv: Tensor, cache: Tensor, origin: Tensor, owner: Tensor, step: Tensor, heads: int, scale: float
) -> Tensor:
    """Write this step's keys and values of every row, and look at all it has written.

    `qkv` [n (h + 2g)·e]; `cache` [2 n g room e]; `owner` [l] is the sentence of each lane of rows, and `step` [b] the
    slot of each sentence. Of earlier slots, row i reads slot s as the lane's row `origin[step % 2, i, s]` wrote it.
    """
    _, rows, key_heads, room, width = cache.shape
    beam = rows // len(owner)
    out = torch.empty(rows, heads * width, dtype=qkv.dtype, device=qkv.device)
    _own[(rows * heads,)](  # pyright: ignore[reportIndexIssue]
        qkv, cache[0], cache[1], origin, owner, step, out, beam, heads, heads // key_heads, rows, room, scale,
        FOLLOW=beam > 1, BS=32, E=width, num_warps=2,
    )  # fmt: skip
    return out


@triton.jit
def _source(
    q_at, keys, real, owner, out, BEAM, H, GROUPS, S, scale,
    BQ: tl.constexpr, BS: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    lane, head = program // H, program % H
    sentence = tl.load(owner + lane).to(tl.int64)
    i, s, e = tl.arange(0, BQ), tl.arange(0, BS), tl.arange(0, E)
    key_width = H // GROUPS * E
    queries = ((lane * BEAM + i[:, None]) * H + head) * E + e[None, :]
    q = tl.load(q_at + queries, mask=i[:, None] < BEAM, other=0.0)
    k_at = keys + sentence * S * 2 * key_width + head // GROUPS * E
    best = tl.full([BQ], float("-inf"), dtype=tl.float32)
    total = tl.zeros([BQ], dtype=tl.float32)
    mixed = tl.zeros([BQ, E], dtype=tl.float32)
    for first in range(0, S, BS):
        at = first + s
        places = at[:, None] * 2 * key_width + e[None, :]
        k = tl.load(k_at + places, mask=at[:, None] < S, other=0.0)
        v = tl.load(k_at + key_width + places, mask=at[:, None] < S, other=0.0)
        seen = tl.load(real + sentence * S + at, mask=at < S, other=0) != 0
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(seen[None, :], scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, axis=1))
        p = tl.exp(scores - higher[:, None])
        shrink = tl.exp(best - higher)
        total = total * shrink + tl.sum(p, axis=1)
        mixed = mixed * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        best = higher
    found = (mixed / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + queries, found, mask=i[:, None] < BEAM)


def source_attention(q: Tensor, keys: Tensor, real: Tensor, owner: Tensor, heads: int, scale: float) -> Tensor:
    """Every row looks at the source of its lane's sentence, which is read once for all of the lane's rows.

    `q` [n h·e]; `keys` [b s 2·g·e], keys and then values; `real` [b s], true at the first place of every sentence;
    `owner` [l].
    """
    rows, width = q.size(0), q.size(1) // heads
    (_, length, both), lanes = keys.shape, len(owner)
    beam = rows // lanes
    block = min(64, max(16, triton.next_power_of_2(length)))
    out = torch.empty_like(q)
    _source[(lanes * heads,)](  # pyright: ignore[reportIndexIssue]
        q, keys, real, owner, out, beam, heads, heads * width * 2 // both, length, scale,
        BQ=max(16, triton.next_power_of_2(beam)), BS=block, E=width,
        num_warps=2 if block <= 32 else 4, num_stages=1 if length <= block else 2,
    )  # fmt: skip
    return out
