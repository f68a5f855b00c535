"""Sum and block maxima of every row of logits in one pass over memory (CUDA)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _scan(logits, sums, maxima, V, M, NEVER: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best, total = -float("inf"), 0.0
    for first in range(0, V, CHUNK):
        i = first + tl.arange(0, CHUNK)
        x = tl.load(logits + row * V + i, mask=i < V, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(best, tl.max(x, axis=0))
        total = total * tl.exp(best - higher) + tl.sum(tl.exp(x - higher), axis=0)
        best = higher
        allowed = tl.reshape(tl.where(i < NEVER, -float("inf"), x), (CHUNK // BLOCK, BLOCK))
        block = first // BLOCK + tl.arange(0, CHUNK // BLOCK)
        tl.store(maxima + row * M + block, tl.max(allowed, axis=1), mask=block < M)
    tl.store(sums + row, best + tl.log(total))


def scan(logits: Tensor, never: int, block: int) -> tuple[Tensor, Tensor]:
    rows, pieces = logits.shape
    blocks = -(-pieces // block)
    sums = torch.empty(rows, device=logits.device)
    maxima = torch.empty(rows, blocks, device=logits.device)
    launch = _scan[(rows,)]  # pyright: ignore[reportIndexIssue]
    launch(logits, sums, maxima, pieces, blocks, NEVER=never, BLOCK=block, CHUNK=2048, num_warps=4)
    return sums, maxima
