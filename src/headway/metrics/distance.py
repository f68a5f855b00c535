"""Edit distance of many pairs at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from jaxtyping import Int

CELLS = 2_000_000  # numbers held at a time: bounds the memory, whatever the length of the texts


def edit_distances(lefts: Sequence[Sequence[Hashable]], rights: Sequence[Sequence[Hashable]]) -> Int[np.ndarray, " n"]:
    """Levenshtein distance of each pair: fewest insertions, deletions and replacements of one symbol."""
    if len(lefts) != len(rights):
        raise ValueError(f"{len(lefts)} sequences against {len(rights)}: they must pair up")
    codes: dict[Hashable, int] = {}
    distances = np.zeros(len(lefts), dtype=np.int64)
    for rows in _chunks(lefts, rights):
        left, left_lengths = _encode([lefts[row] for row in rows], codes)
        right, right_lengths = _encode([rights[row] for row in rows], codes)
        distances[rows] = _distances(left, left_lengths, right, right_lengths)
    return distances


def _chunks(lefts: Sequence[Sequence[Hashable]], rights: Sequence[Sequence[Hashable]]) -> Iterator[list[int]]:
    """Rows of like length together, longest first, so that little is spent on padding."""
    longest = [max(len(left), len(right)) for left, right in zip(lefts, rights, strict=True)]
    order = sorted(range(len(longest)), key=lambda row: -longest[row])
    start = 0
    while start < len(order):
        size = min(4096, max(1, CELLS // (1 + longest[order[start]])))
        yield order[start : start + size]
        start += size


def _encode(
    sequences: list[Sequence[Hashable]], codes: dict[Hashable, int]
) -> tuple[Int[np.ndarray, "n t"], Int[np.ndarray, " n"]]:
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    table = np.zeros((len(sequences), int(lengths.max(initial=0))), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        table[row, : len(sequence)] = [codes.setdefault(symbol, len(codes)) for symbol in sequence]
    return table, lengths


def _distances(
    left: Int[np.ndarray, "n l"],
    left_lengths: Int[np.ndarray, " n"],
    right: Int[np.ndarray, "n r"],
    right_lengths: Int[np.ndarray, " n"],
) -> Int[np.ndarray, " n"]:
    """One row of the table per symbol on the left. Padding is harmless: no cell looks to its right."""
    columns = np.arange(right.shape[1] + 1)
    row = np.tile(columns, (len(right), 1))
    result = right_lengths.copy()
    for i in range(left.shape[1]):
        above = np.empty_like(row)
        above[:, 0] = i + 1
        above[:, 1:] = np.minimum(row[:, :-1] + (right != left[:, i : i + 1]), row[:, 1:] + 1)
        # An insertion costs one per step to the right: a running minimum after taking that slope away.
        row = np.minimum.accumulate(above - columns, axis=1) + columns
        ends = left_lengths == i + 1
        result[ends] = row[ends, right_lengths[ends]]
    return result
