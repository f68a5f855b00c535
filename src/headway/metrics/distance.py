"""Levenshtein distance of many pairs of sequences, vectorised over pairs.

Ours because libraries such as rapidfuzz compare one pair at a time, and would be a dependency for this file alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from jaxtyping import Int

CELLS = 2_000_000  # most integers held at a time, which bounds the memory for texts of any length


def edit_distances(lefts: Sequence[Sequence[Hashable]], rights: Sequence[Sequence[Hashable]]) -> Int[np.ndarray, " n"]:
    """Return the Levenshtein distance of each pair: the fewest insertions, deletions and substitutions."""
    if len(lefts) != len(rights):
        raise ValueError(f"{len(lefts)} sequences and {len(rights)}: there must be as many")
    codes: dict[Hashable, int] = {}
    distances = np.zeros(len(lefts), dtype=np.int64)
    for rows in _chunks(lefts, rights):
        left, left_lengths = _encode([lefts[row] for row in rows], codes)
        right, right_lengths = _encode([rights[row] for row in rows], codes)
        distances[rows] = _distances(left, left_lengths, right, right_lengths)
    return distances


def _chunks(lefts: Sequence[Sequence[Hashable]], rights: Sequence[Sequence[Hashable]]) -> Iterator[list[int]]:
    """Yield indices of pairs of similar length, longest first, so that there is little padding."""
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
    """Compute one row of the table per symbol of `left`. No cell depends on one to its right, so padding is safe."""
    columns: Int[np.ndarray, " c"] = np.arange(int(right.shape[1]) + 1)
    row: Int[np.ndarray, "n c"] = np.tile(columns, (len(right), 1))
    result = right_lengths.copy()
    for i in range(left.shape[1]):
        above = np.empty_like(row)
        above[:, 0] = i + 1
        above[:, 1:] = np.minimum(row[:, :-1] + (right != left[:, i : i + 1]), row[:, 1:] + 1)
        # An insertion costs one for each column: subtract the columns, take the running minimum, add them again.
        row = np.minimum.accumulate(above - columns, axis=1) + columns
        ends = left_lengths == i + 1
        result[ends] = row[ends, right_lengths[ends]]
    return result
