"""Ragged arrays: many rows of different lengths in one flat array."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Integer


class Ragged(NamedTuple):
    """A ragged array: row i is `flat[offsets[i] : offsets[i + 1]]`.

    The first offset is 0 and the last is the length of `flat`.
    """

    flat: Integer[np.ndarray, "p"]
    offsets: Int[np.ndarray, "m"]

    @property
    def lengths(self) -> Int[np.ndarray, "n"]:
        return np.diff(self.offsets)

    def take(self, rows: Integer[np.ndarray, "n"]) -> Ragged:
        """Return the given rows in the given order, computed without a Python loop."""
        begins = self.offsets[rows]
        lengths = self.offsets[rows + 1] - begins
        offsets = offsets_of(lengths)
        shift = np.repeat(begins - offsets[:-1], lengths)
        return Ragged(self.flat[np.arange(offsets[-1]) + shift], offsets)


def offsets_of(lengths: Integer[np.ndarray, "n"]) -> Int[np.ndarray, "m"]:
    """Return the offsets of rows of these lengths: one more than there are rows."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


class Growing:
    """An array with amortised constant-time append."""

    def __init__(self, first: np.ndarray) -> None:
        self._room, self._used = first, len(first)

    @property
    def array(self) -> np.ndarray:
        """The elements appended so far, without a copy."""
        return self._room[: self._used]

    def append(self, more: np.ndarray) -> None:
        end = self._used + len(more)
        if end > len(self._room):
            room = np.empty((max(end, 2 * len(self._room)), *self._room.shape[1:]), self._room.dtype)
            room[: self._used] = self.array
            self._room = room
        self._room[self._used : end] = more
        self._used = end
