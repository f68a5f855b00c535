"""A step of beam search on CUDA in two launches: look at the logits, then settle what follows each row.

The same choices as `Trellis.advance`, ties going to the lower row and piece. Imported only where Triton is.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from headway.engines.cuda.beam_buffers import Trellis
from headway.search.candidates import BLOCK
from headway.text.vocabulary import BOS, EOS

CHUNK = 2048  # pieces that one program looks at
MOST_BLOCKS = 1 << 14  # of all rows of a sentence
NEVER = BOS + 1  # padding, unknown and begin are the first pieces, and never an output


@triton.jit
def _look(logits, peaks, sums, maxima, V, M, P, NEVER: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    row, part = program // P, program % P
    i = part * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(logits + row * V + i, mask=i < V, other=-float("inf")).to(tl.float32)
    peak = tl.max(x, axis=0)
    tl.store(peaks + program, peak)
    tl.store(sums + program, tl.sum(tl.exp(x - peak), axis=0))
    allowed = tl.reshape(tl.where(i < NEVER, -float("inf"), x), (CHUNK // BLOCK, BLOCK))
    block = part * (CHUNK // BLOCK) + tl.arange(0, CHUNK // BLOCK)
    tl.store(maxima + row * M + block, tl.max(allowed, axis=1), mask=block < M)


@triton.jit
def _place_of(x, best, places):
    """The lowest of the places where the best stands."""
    return tl.min(tl.where(x == best, places, 2147483647), axis=0)


@triton.jit
def _of_rows(x, w, rows):
    """What x, a number for each of w, is at the given rows."""
    return tl.sum(tl.where(rows[:, None] == w[None, :], x[None, :], 0.0), axis=1)


@triton.jit
def _brought(peaks, sums, totals, row, own, w, P, W: tl.constexpr, BP: tl.constexpr):
    """Each row's total, which stands at its own place, and the same less the logarithm of its sum of exponentials."""
    part = tl.arange(0, BP)
    there = (w[:, None] < W) & (part[None, :] < P)
    peak = tl.load(peaks + row[:, None] * P + part[None, :], mask=there, other=-float("inf"))
    mass = tl.load(sums + row[:, None] * P + part[None, :], mask=there, other=0.0)
    highest = tl.where(w < W, tl.max(peak, axis=1), 0.0)
    mass = tl.where(w < W, tl.sum(mass * tl.exp(peak - highest[:, None]), axis=1), 1.0)
    total = tl.load(totals + own, mask=w < W, other=-float("inf"))
    return total, total - highest - tl.log(mass)


@triton.jit
def _best_blocks(
    maxima, base, row, w, M,
    W: tl.constexpr, C: tl.constexpr, BW: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """The blocks of pieces with the best maxima, in the order of rows and blocks; -1 where there are no more."""
    m, c = tl.arange(0, BM), tl.arange(0, BC)
    there = (w[:, None] < W) & (m[None, :] < M)
    bests = tl.load(maxima + row[:, None] * M + m[None, :], mask=there, other=-float("inf")) + base[:, None]
    bests = tl.reshape(bests, (BW * BM,))
    order = tl.arange(0, BW * BM)
    chosen = tl.full([BC], -1, dtype=tl.int32)
    for j in tl.static_range(C):
        best = tl.max(bests, axis=0)
        at = _place_of(bests, best, order)
        chosen = tl.where(c == j, tl.where(best > -float("inf"), at, -1), chosen)
        bests = tl.where(order == at, -float("inf"), bests)
    return chosen


@triton.jit
def _best_pieces(
    logits, base, chosen, lane, w, V,
    W: tl.constexpr, C: tl.constexpr, NEVER: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """The best totals in those blocks and their places, row · V + piece."""
    c, inside = tl.arange(0, BC), tl.arange(0, BLOCK)
    parent = tl.maximum(chosen, 0) // BM
    piece = (tl.maximum(chosen, 0) % BM * BLOCK)[:, None] + inside[None, :]
    allowed = (chosen[:, None] >= 0) & (piece >= NEVER) & (piece < V)
    cells = (lane * W + parent)[:, None] * V + piece
    values = tl.load(logits + cells, mask=allowed, other=-float("inf")).to(tl.float32)
    values = tl.where(allowed, values + _of_rows(base, w, parent)[:, None], -float("inf"))
    values = tl.reshape(values, (BC * BLOCK,))
    places = tl.reshape(parent[:, None] * V + tl.minimum(piece, V - 1), (BC * BLOCK,))
    found = tl.full([BC], -float("inf"), dtype=tl.float32)
    where = tl.zeros([BC], dtype=tl.int32)
    for j in tl.static_range(C):
        best = tl.max(values, axis=0)
        at = tl.minimum(_place_of(values, best, places), W * V - 1)  # no place at all, where a logit is no number
        found = tl.where(c == j, best, found)
        where = tl.where(c == j, at, where)
        values = tl.where(places == at, -float("inf"), values)
    return found, where


@triton.jit
def _ranks(old, new, k, c, K: tl.constexpr):
    """The places of outputs kept before, which are in order, and of new ones, all together."""
    before = tl.sum((new[None, :] > old[:, None]).to(tl.int32), axis=1)
    better = (new[None, :] > new[:, None]) | ((new[None, :] == new[:, None]) & (c[None, :] < c[:, None]))
    holds = (old[None, :] >= new[:, None]) & (k[None, :] < K)
    return k + before, tl.sum(better.to(tl.int32), axis=1) + tl.sum(holds.to(tl.int32), axis=1)


@triton.jit
def _follow(origin, goes, parent, rank, lane, t, LANES, ROOM, W: tl.constexpr, BS: tl.constexpr):
    """Who wrote what: each row of the next beam takes over its parent's slots, and the parent's newest."""
    s = tl.arange(0, BS)
    now, then = (t % 2).to(tl.int64) * LANES * W, ((t + 1) % 2).to(tl.int64) * LANES * W
    for first in range(0, t + 1, BS):
        slot = first + s
        wanted = goes[:, None] & (slot[None, :] < t)
        from_row = (now + lane * W + parent)[:, None] * ROOM + slot[None, :]
        writer = tl.load(origin + from_row, mask=wanted, other=0)
        writer = tl.where(slot[None, :] == t, parent[:, None], writer)
        to_row = (then + lane * W + rank)[:, None] * ROOM + slot[None, :]
        tl.store(origin + to_row, writer, mask=goes[:, None] & (slot[None, :] <= t))


@triton.jit
def _hand_on(queue, owner, lane, B):
    """One sentence fewer is left, and the one that has waited longest takes its lane."""
    tl.atomic_add(queue, -1)
    following = tl.atomic_add(queue + 1, 1)
    if following < B:
        tl.store(owner + lane, following)


@triton.jit
def _settle(
    logits, peaks, sums, maxima, origin, owner, last, totals, done, cap, reach, step, count, queue, kept, ended, log,
    log_scores, weights, B, LANES, V, M, P, ROOM, enough,
    W: tl.constexpr, K: tl.constexpr, C: tl.constexpr, NEVER: tl.constexpr, END: tl.constexpr, BLOCK: tl.constexpr,
    BW: tl.constexpr, BK: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr, BM: tl.constexpr, BS: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0).to(tl.int64)
    b = tl.load(owner + lane).to(tl.int64)
    if tl.load(done + b) != 0:
        return
    t = tl.load(step + b)
    w, c, k, field = tl.arange(0, BW), tl.arange(0, BC), tl.arange(0, BK), tl.arange(0, 4)
    row = lane * W + w
    total, base = _brought(peaks, sums, totals, row, b * W + w, w, P, W, BP)
    chosen = _best_blocks(maxima, base, row, w, M, W, C, BW, BC, BM)
    found, where = _best_pieces(logits, base, chosen, lane, w, V, W, C, NEVER, BLOCK, BC, BM)
    parent, piece = where // V, where % V
    score = found - _of_rows(tl.where(total > -float("inf"), total, 0.0), w, parent)
    # ends among the first W compete with those kept
    is_end = (piece == END) & (found > -float("inf"))
    open_end = is_end & (c < W)
    old = tl.load(kept + b * K + k, mask=k < K, other=-float("inf"))
    payload = tl.load(ended + ((b * K + k) * 4)[:, None] + field[None, :], mask=(k < K)[:, None], other=0.0)
    new = tl.where(open_end, found * tl.load(weights + t), -float("inf"))
    old_rank, new_rank = _ranks(old, new, k, c, K)
    stays, joins = (k < K) & (old_rank < K), open_end & (new_rank < K)
    worst = tl.max(tl.where(stays & (old_rank == K - 1), old, -float("inf")), axis=0)
    worst = tl.maximum(worst, tl.max(tl.where(joins & (new_rank == K - 1), new, -float("inf")), axis=0))
    ends = tl.load(count + b) + tl.sum(open_end.to(tl.int32), axis=0)
    # the first W that do not end are the next beam
    earlier = (c[None, :] < c[:, None]) & (is_end[None, :] == 0)
    rank = tl.sum(earlier.to(tl.int32), axis=1)
    goes = (is_end == 0) & (rank < W) & (c < C)
    highest_total = tl.max(tl.where(goes, found, -float("inf")), axis=0)
    beaten = highest_total * tl.load(reach + b) <= worst
    over = beaten | (ends >= enough) | (t + 1 >= tl.load(cap + b))
    tl.debug_barrier()  # all is read; now it is written
    tl.store(kept + b * K + old_rank, old, mask=stays)
    tl.store(ended + ((b * K + old_rank) * 4)[:, None] + field[None, :], payload, mask=stays[:, None])
    fresh = ended + (b * K + new_rank) * 4
    tl.store(kept + b * K + new_rank, new, mask=joins)
    tl.store(fresh, found, mask=joins)
    tl.store(fresh + 1, score, mask=joins)
    tl.store(fresh + 2, t.to(tl.float32), mask=joins)
    tl.store(fresh + 3, parent.to(tl.float32), mask=joins)
    tl.store(last + b * W + rank, piece, mask=goes)
    tl.store(totals + b * W + rank, found, mask=goes)
    line = (t.to(tl.int64) * 3 * B + b) * W + rank
    tl.store(log + line, piece, mask=goes)
    tl.store(log + line + B * W, parent, mask=goes)
    tl.store(log_scores + line + 2 * B * W, score, mask=goes)
    tl.store(count + b, ends)
    tl.store(step + b, t + 1)
    if over:
        tl.store(done + b, 1)
        _hand_on(queue, owner, lane, B)
    if W > 1:
        _follow(origin, goes, parent, rank, lane, t, LANES, ROOM, W, BS)


def _room(count: int) -> int:
    return max(2, triton.next_power_of_2(count))


def fits(size: int, pieces: int) -> bool:
    """Whether a sentence's beam fits in one program."""
    return size <= 8 and _room(size) * triton.next_power_of_2(-(-pieces // BLOCK)) <= MOST_BLOCKS


def settle(logits: Tensor, trellis: Trellis, origin: Tensor, enough: int) -> None:
    """One step of every lane, in place. `origin` [2 n room]: which row of the lane wrote what each row reads, for
    even and odd steps in turn."""
    (sentences, size, keep, *_), lanes = trellis.extent, len(trellis.owner)
    (rows, pieces), device = logits.shape, logits.device
    blocks, parts = -(-pieces // BLOCK), -(-pieces // CHUNK)
    peaks, sums = torch.empty(2, rows, parts, device=device)
    maxima = torch.empty(rows, blocks, device=device)
    _look[(rows * parts,)](  # pyright: ignore[reportIndexIssue]
        logits, peaks, sums, maxima, pieces, blocks, parts, NEVER=NEVER, BLOCK=BLOCK, CHUNK=CHUNK, num_warps=4
    )
    across = triton.next_power_of_2(blocks)
    _settle[(lanes,)](  # pyright: ignore[reportIndexIssue]
        logits, peaks, sums, maxima, origin, trellis.owner, trellis.last, trellis.totals, trellis.done, trellis.cap,
        trellis.reach, trellis.step, trellis.count, trellis.queue, trellis.ended_scores, trellis.ended, trellis.log,
        trellis.log.view(torch.float32), trellis.weights, sentences, lanes, pieces, blocks, parts, origin.size(2),
        enough,
        W=size, K=keep, C=2 * size, NEVER=NEVER, END=EOS, BLOCK=BLOCK,
        BW=_room(size), BK=_room(keep), BC=_room(2 * size), BP=_room(parts), BM=across, BS=32,
        num_warps=min(16, max(4, _room(size) * across // 512)),
    )  # fmt: skip
