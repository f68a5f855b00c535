"""The shuffled order of examples: a pure function of seed and epoch, computed without storing a permutation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Integer, UInt64

ROUNDS = 8  # rounds of the Feistel network
WINDOW_EXAMPLES = 200_000  # examples that are sorted by length together
WINDOW_PIECES = 16_000_000  # most tokens of a window, for corpora of long documents


@dataclass(frozen=True, order=True)
class Cursor:
    """The position of the next batch. Batches of all ranks are counted, so the number of ranks may change."""

    epoch: int = 0
    window: int = 0  # within the epoch
    batch: int = 0  # within the window

    def __post_init__(self) -> None:
        if min(astuple(self)) < 0:
            raise ValueError(f"cursor {astuple(self)}: epoch, window and batch must not be negative")


def seeded(seed: int, *purpose: int) -> np.random.Generator:
    """Return a random generator that is independent for each purpose."""
    return np.random.default_rng([seed % 2**64, *purpose])


def permute(positions: Integer[np.ndarray, " n"], size: int, key: Sequence[int]) -> Integer[np.ndarray, " n"]:
    """Return the images of positions under a pseudo-random permutation of range(size), without a table of that size.

    It is a Feistel network over a rectangle of sides `width` and `height`, each near the square root of `size`: every
    round shifts one coordinate by a hash of the other, which is invertible, so the whole is a bijection of the
    rectangle. Results outside the range are mapped again (cycle walking) until they are inside.
    """
    if size <= 0:
        return positions.astype(np.int64)
    width = int(np.ceil(np.sqrt(size)))
    height = -(-size // width)
    keys = np.random.SeedSequence([k % 2**64 for k in key]).generate_state(ROUNDS, np.uint64)
    result = positions.astype(np.int64)
    outside = np.arange(len(result))
    while len(outside):
        result[outside] = _shuffle_rectangle(result[outside], width, height, keys)
        outside = outside[result[outside] >= size]
    return result


def _shuffle_rectangle(
    cells: Integer[np.ndarray, " n"], width: int, height: int, keys: UInt64[np.ndarray, " rounds"]
) -> Integer[np.ndarray, " n"]:
    sides = np.array([width, height], np.uint64)
    column, row = cells.astype(np.uint64) % sides[0], cells.astype(np.uint64) // sides[0]
    for key in keys.reshape(-1, 2, 1):
        column = (column + _hash(row ^ key[0]) % sides[0]) % sides[0]
        row = (row + _hash(column ^ key[1]) % sides[1]) % sides[1]
    return (row * sides[0] + column).astype(np.int64)


def _hash(numbers: UInt64[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
    """Return the SplitMix64 hash of each number (Steele et al. 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


class Order:
    """The examples of each window of each epoch.

    A corpus of n examples and weight w contributes n·w examples to an epoch, taken in turn from an endless repetition
    of the corpus. Hence the numbers of times that two of its examples have been seen differ by at most one.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int, pieces: int = 0) -> None:
        self.sizes = tuple(sizes)
        self.weights = tuple(Fraction(str(weight)) for weight in weights)  # exact: 0.7 is 7/10
        self.seed = seed
        self.firsts = np.cumsum((0, *sizes))[:-1]  # index of the first example of each corpus
        mean = pieces / max(1, sum(sizes))
        self.limit = max(1, min(WINDOW_EXAMPLES, int(WINDOW_PIECES / max(1.0, mean))))
        if len(self.weights) != len(self.sizes) or min(self.weights, default=0) < 0:
            raise ValueError(f"{len(self.sizes)} corpora need as many weights of at least 0, not {list(weights)}")
        if sum(map(Fraction.__mul__, self.weights, map(Fraction, self.sizes))) <= 0:
            raise ValueError("no examples: every corpus is empty or has weight 0")

    def examples_in(self, epoch: int) -> int:
        return sum(self._taken(corpus, epoch) for corpus in range(len(self.sizes)))

    def windows_in(self, epoch: int) -> int:
        return -(-self.examples_in(epoch) // self.limit)

    def examples(self, epoch: int, window: int) -> Integer[np.ndarray, " n"]:
        """Return the indices of a window's examples, ascending, as bucketing sorts them anyway."""
        total, windows = self.examples_in(epoch), self.windows_in(epoch)
        start, stop = window * total // windows, (window + 1) * total // windows
        drawn = np.sort(permute(np.arange(start, stop), total, (self.seed, 0, epoch)))
        ends = np.cumsum([self._taken(corpus, epoch) for corpus in range(len(self.sizes))])
        parts = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
        taken = [
            self._walk(corpus, self._before(corpus, epoch) + part - end + self._taken(corpus, epoch))
            for corpus, (part, end) in enumerate(zip(parts, ends, strict=True))
        ]
        return np.sort(np.concatenate(taken))

    def after(self, cursor: Cursor) -> Cursor:
        """Return the beginning of the next window."""
        return self.settle(Cursor(cursor.epoch, cursor.window + 1))

    def settle(self, cursor: Cursor) -> Cursor:
        """Return the cursor, or the beginning of the next epoch with examples if its window does not exist."""
        while cursor.window >= self.windows_in(cursor.epoch):
            cursor = Cursor(cursor.epoch + 1)
        return cursor

    def _before(self, corpus: int, epoch: int) -> int:
        """Return how many examples of a corpus were taken in all earlier epochs."""
        return int(epoch * self.sizes[corpus] * self.weights[corpus])

    def _taken(self, corpus: int, epoch: int) -> int:
        return self._before(corpus, epoch + 1) - self._before(corpus, epoch)

    def _walk(self, corpus: int, steps: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
        size = self.sizes[corpus]
        return permute(steps % max(1, size), size, (self.seed, 1, corpus)) + self.firsts[corpus]
