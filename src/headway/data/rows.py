"""Vectorised functions on ragged rows: pack, gather, take, join, choose and pad."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from jaxtyping import Bool, Int64, Integer

from headway.text.ragged import Ragged, offsets_of


def pack(rows: Sequence[Sequence[int]], kind: str) -> Ragged:
    """Return lists as ragged rows of the NumPy type `kind`."""
    offsets = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
    return Ragged(np.fromiter(chain.from_iterable(rows), np.dtype(kind), int(offsets[-1])), offsets)


def gather(
    flat: Integer[np.ndarray, " ids"], starts: Integer[np.ndarray, " n"], lengths: Integer[np.ndarray, " n"]
) -> Ragged:
    """Return the rows that begin at `starts`."""
    offsets = offsets_of(lengths)
    return Ragged(flat[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])], offsets)


def take(table: Ragged, rows: Integer[np.ndarray, " n"]) -> Ragged:
    """Return some rows of a table; the cost is independent of the size of the table."""
    starts = table.offsets[rows]
    return gather(table.flat, starts, table.offsets[rows + 1] - starts)


def join(tables: Sequence[Ragged]) -> Ragged:
    """Return the rows of all tables, in order."""
    lengths = np.concatenate([table.lengths for table in tables])
    return Ragged(np.concatenate([table.flat for table in tables]), offsets_of(lengths))


def choose(first: Bool[np.ndarray, " n"], one: Ragged, other: Ragged) -> Ragged:
    """Return the rows of `one` where `first` is true, and those of `other` elsewhere."""
    starts = np.where(first, one.offsets[:-1], other.offsets[:-1] + len(one.flat))
    lengths = np.where(first, one.lengths, other.lengths)
    return gather(np.concatenate((one.flat, other.flat)), starts, lengths)


def pad(table: Ragged, rows: int, width: int) -> Int64[np.ndarray, "{rows} {width}"]:
    """Return a matrix of the rows, padded with zeros to `width` columns and `rows` rows."""
    lengths = np.zeros((rows, 1), np.int64)
    lengths[: len(table.offsets) - 1, 0] = table.lengths
    padded = np.zeros((rows, width), np.int64)
    padded[np.arange(width) < lengths] = table.flat
    return padded
