"""Formulas without parameters."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor


def frequencies(width: int, base: float = 10_000.0, device: torch.device | None = None) -> Float[Tensor, "half"]:
    """1 / base^(2i/d): one turn speed for each pair of features (section 3.5).

    In double precision where there is one: an angle of a thousand turns is exact only then.
    """
    precision = torch.float32 if device is not None and device.type == "mps" else torch.float64
    return base ** (-torch.arange(0, width, 2, device=device, dtype=precision) / width)


def sinusoid(position: Tensor, rates: Float[Tensor, "half"]) -> Tensor:
    """PE(pos): all sines, then all cosines. The paper interleaves them, which is a fixed reordering of features."""
    angle = position[..., None] * rates
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def rotate(heads: Float[Tensor, "b h t e"], angle: Float[Tensor, "#b t half"]) -> Float[Tensor, "b h t e"]:
    """Turn the pair (i, i + e/2) of every head by an angle."""
    cosine, sine = angle.cos()[:, None].to(heads.dtype), angle.sin()[:, None].to(heads.dtype)
    a, b = heads.chunk(2, dim=-1)
    return torch.cat([a * cosine - b * sine, a * sine + b * cosine], dim=-1)


def by_distance(
    table: Callable[[Int[Tensor, "n"]], Tensor], q_pos: Int[Tensor, "#b q"], k_pos: Int[Tensor, "#b k"]
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Vectors for every distance q - k that occurs, and what picks every pair's entry from numbers made of them.

    Positions that the whole batch shares count up by ones, so that shapes tell how many distances there are: a
    device need not be waited for, and the step can be captured as a graph.
    """
    if max(len(q_pos), len(k_pos)) == 1:
        queries, keys = q_pos.size(1), k_pos.size(1)
        furthest = q_pos[0, -1] - k_pos[0, 0]
        return table(furthest - torch.arange(queries + keys, device=q_pos.device)), lambda made: shift(made, keys)
    distance = q_pos[:, :, None] - k_pos[:, None, :]
    lowest = distance.min()
    count = int(distance.max() - lowest) + 1
    return table(lowest + torch.arange(count, device=q_pos.device)), lambda made: pick(made, distance - lowest)


def shift(made: Float[Tensor, "b h q n"], keys: int) -> Float[Tensor, "b h q k"]:
    """Numbers by falling distance to numbers by key: each query's row begins one place before the row above it.

    In a row of memory that is a row one shorter, so nothing is gathered (Dai et al. 2019, appendix B).
    """
    queries, distances = made.shape[-2:]
    rows = made.flatten(-2)[..., queries - 1 : queries - 1 + queries * (distances - 1)]
    return torch.unflatten(rows, -1, (queries, distances - 1))[..., :keys]


def pick(made: Float[Tensor, "b h q n"], index: Int[Tensor, "#b q k"]) -> Float[Tensor, "b h q k"]:
    """For every query and key, the entry of their distance."""
    batch, heads = made.shape[:2]
    return made.gather(-1, index[:, None].expand(batch, heads, -1, -1))
