"""Attention over slots whose keys were written by other rows, spelled out: the reference of the Triton kernel."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def slot_attention(
    q: Float[Tensor, "n h 1 e"],
    k: Float[Tensor, "n h s e"],
    v: Float[Tensor, "n h s e"],
    start: Int[Tensor, "#n 1"],
    origin: Int[Tensor, "n s"],
    scale: float,
) -> Float[Tensor, "n h 1 e"]:
    """Row i looks at slot s as row origin[i, s] wrote it, for all slots up to its position."""
    slots = torch.arange(k.size(2), device=k.device)
    k, v = (x.transpose(1, 2)[origin, slots].transpose(1, 2) for x in (k, v))
    scores = (q * scale) @ k.transpose(-1, -2)
    scores = scores.masked_fill((slots > start)[:, None, None], -torch.inf)
    return scores.softmax(dim=-1) @ v
