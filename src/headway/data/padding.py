"""Pad lists of ids into a matrix, and group sentences of similar length into batches for decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from headway.text.vocabulary import PAD


def pad_rows(rows: Sequence[Sequence[int]], device: torch.device | str) -> Int[Tensor, "b s"]:
    longest = max((len(row) for row in rows), default=0)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long, device=device)


def packs(lengths: Sequence[int], tokens: int, rows: int) -> Iterator[list[int]]:
    """Yield indices of sentences to decode together, the longest first, so that lack of memory is noticed at once."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    pack: list[int] = []
    for index in order:
        if pack and (len(pack) >= rows or lengths[pack[0]] * (len(pack) + 1) > tokens):
            yield pack
            pack = []
        pack.append(index)
    if pack:
        yield pack
