"""Shared parts of subword segmenters: spelling, batches of words of equal length, and random bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Int, Integer, UInt64

from headway.text.ragged import Ragged, offsets_of
from headway.text.spm import Kind, Piece

_CELLS = 1 << 20  # most letters segmented at a time, to bound memory


# Returns another segmentation of each word, as a pure function of the word and its key.
Segmenter = Callable[[Ragged, UInt64[np.ndarray, "n"]], Ragged]


class Unchanged:
    """A segmenter that returns the words as they are, for symbols that cannot be split."""

    def __call__(self, words: Ragged, keys: UInt64[np.ndarray, "n"]) -> Ragged:
        return words


class Alphabet:
    """The subwords of a vocabulary and their spelling in letters, its smallest subwords.

    Bytes, user-defined and special pieces are never split or merged.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        normal = {piece.text: i for i, piece in enumerate(pieces) if piece.kind == Kind.NORMAL}
        self.ids = normal
        self.scores = np.array([piece.score for piece in pieces])
        spelled = [self._spell(i, piece, normal) for i, piece in enumerate(pieces)]
        lengths = np.array([len(letters) for letters in spelled], dtype=np.int64)
        self.spelling = Ragged(np.array(list(chain.from_iterable(spelled))), offsets_of(lengths))
        self.composed = {i: letters for i, letters in enumerate(spelled) if len(letters) > 1}

    @staticmethod
    def _spell(index: int, piece: Piece, normal: dict[str, int]) -> list[int]:
        letters = [normal.get(letter, -1) for letter in piece.text] if piece.kind == Kind.NORMAL else [-1]
        return [index] if -1 in letters else letters

    def __len__(self) -> int:
        return len(self.scores)

    def spell(self, words: Ragged) -> Ragged:
        """Return the words with every subword replaced by its letters."""
        letters = self.spelling.take(words.flat)
        return Ragged(letters.flat, letters.offsets[words.offsets])


class Pairs:
    """A vectorised table (left, right) -> value of integers; `find` returns -1 for a pair that is not in it."""

    def __init__(self, table: dict[tuple[int, int], int], width: int) -> None:
        self._width = width + 1
        keys = np.array([self._key(left, right) for left, right in table] or [-1])
        order = np.argsort(keys)
        self._keys = keys[order]
        self._values = np.array(list(table.values()) or [-1], dtype=np.int32)[order]

    def find(self, left: Integer[np.ndarray, "*s"], right: Integer[np.ndarray, "*s"]) -> Int[np.ndarray, "*s"]:
        wanted: Int[np.ndarray, "*s"] = self._key(left.astype(np.int64), right)
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[place] == wanted, self._values[place], -1)

    def _key(self, left: Any, right: Any) -> Any:
        return (left + 1) * self._width + right + 1  # shifted by one, so that -1 is never mistaken for an id


def by_length(
    words: Ragged,
    keys: UInt64[np.ndarray, "n"],
    cut: Callable[[Integer[np.ndarray, "m w"], UInt64[np.ndarray, "m"]], Int[np.ndarray, "m w"]],
) -> Ragged:
    """Apply `cut` to words of the same length together, as rows of a matrix; `cut` pads its rows with -1."""
    lengths, out = words.lengths, np.full(len(words.flat), -1, dtype=np.int32)
    order = np.argsort(lengths, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        width = int(lengths[same].max(initial=0))
        for rows in np.array_split(same, max(1, width * len(same) // _CELLS)):
            places = words.offsets[rows][:, None] + np.arange(width)
            out[places] = cut(words.flat[places], keys[rows])
    kept = out >= 0
    return Ragged(out[kept], offsets_of(kept.view(np.int8))[words.offsets])


# ---------------------------------------------------------------- random bits


def mix(x: UInt64[np.ndarray, "*s"]) -> UInt64[np.ndarray, "*s"]:
    """Return a 64-bit hash of each number (splitmix64), the same on every machine."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def draw(keys: UInt64[np.ndarray, "m"], step: Integer[np.ndarray, "m"] | int, n: int) -> UInt64[np.ndarray, "m n"]:
    """Return `n` random 64-bit numbers for each row, a pure function of the row's key and the step."""
    states = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mix(mix(keys + np.asarray(step).astype(np.uint64))[:, None] + states)
