"""Bucketing: divide rows of different lengths into batches with little padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

LEVELS = 8  # number of lengths to which the longer side of a batch may be padded
CORNERS = 3  # number of shapes at each level
HALVINGS = 2  # the last batch of a window may have a half or a quarter of the usual rows
JITTER = 2.0  # positions; above 1, also rows of different lengths are shuffled, so that batches differ between epochs
FINEST = 256  # most distinct lengths considered when levels are chosen


class Shape(NamedTuple):
    """The shape of a batch, padding included."""

    rows: int
    source: int
    target: int


@dataclass(frozen=True)
class Lengths:
    """The number of source and target positions of each row."""

    source: Integer[np.ndarray, " n"]
    target: Integer[np.ndarray, " n"]

    def longer(self) -> Integer[np.ndarray, " n"]:
        return np.maximum(self.source, self.target)

    def corner(self, level: Integer[np.ndarray, " n"] | int) -> Integer[np.ndarray, " n"]:
        """Return a sort key within a level: first by growing target, then by shrinking source.

        Rows with similar keys have similar lengths on both sides.
        """
        return np.where(self.source > self.target, self.target, 2 * level - self.source)

    def take(self, rows: Integer[np.ndarray, " k"] | slice) -> Lengths:
        return Lengths(self.source[rows], self.target[rows])


@dataclass(frozen=True)
class Plan:
    """The division of a window into batches."""

    rows: Integer[np.ndarray, " n"]  # rows of the window, batch after batch
    cuts: Sequence[int]  # the start of each batch in `rows`, and the end
    shapes: Sequence[Shape]
    turns: Integer[np.ndarray, " k"]  # the order of training: a permutation of the batches

    def __len__(self) -> int:
        return len(self.shapes)

    def batch(self, number: int) -> tuple[Integer[np.ndarray, " b"], Shape]:
        turn = int(self.turns[number])
        return self.rows[self.cuts[turn] : self.cuts[turn + 1]], self.shapes[turn]


class Exact:
    """Bucketing with the least padding: a batch is as long as its longest row, with as many rows as fit."""

    def __init__(self, tokens: int, sentences: int | None, longest: int) -> None:
        self.tokens = tokens
        self.sentences = sentences or tokens
        self.levels = np.arange(longest + 1)

    def pack(self, lengths: Lengths, rng: np.random.Generator) -> Plan:
        """Return the batches of a window: sort rows by length, split them into full batches, shuffle the batches."""
        level = np.searchsorted(self.levels, lengths.longer())
        corner = lengths.corner(self.levels[level]) + JITTER * rng.random(len(level))
        onward = (
            level + rng.integers(2)
        ) % 2 == 0  # alternate levels are reversed, so that neighbouring rows are similar
        rows = np.lexsort((np.where(onward, corner, -corner), -level))
        level, lengths = level[rows], lengths.take(rows)
        cuts, shapes = [0], []
        while cuts[-1] < len(rows):
            first = cuts[-1]
            last = min(first + self.capacity(int(level[first])), len(rows))
            inside = lengths.take(slice(first, last))
            shapes.append(
                self.shape(int(level[first]), last - first, int(inside.source.max()), int(inside.target.max()))
            )
            cuts.append(last)
        return Plan(rows, cuts, shapes, rng.permutation(len(shapes)))

    def capacity(self, level: int) -> int:
        """Return the number of rows of a full batch whose longest row is of this level."""
        return min(self.tokens // int(self.levels[level]), self.sentences)

    def shape(self, level: int, rows: int, source: int, target: int) -> Shape:
        """Return the shape of a batch of rows with these lengths."""
        return Shape(rows, source, target)


class Bounded(Exact):
    """Bucketing with few shapes, chosen by the lengths of a sample: for CUDA graphs and compiled models.

    The padded lengths determine the number of rows of a batch, chosen so that the batches of a level have equal sizes.
    The last batch of a level may have a half or a quarter of these rows; dummy rows fill it up.
    """

    def __init__(self, tokens: int, sentences: int | None, longest: int, sample: Lengths) -> None:
        super().__init__(tokens, sentences, longest)
        step = -(-longest // FINEST)
        coarse = Lengths(*(np.minimum(-(-side // step) * step, longest) for side in (sample.source, sample.target)))
        self.levels = np.union1d(_choose_levels(coarse.longer()), [longest])
        level = np.searchsorted(self.levels, coarse.longer())
        members = [coarse.take(np.flatnonzero(level == number)) for number in range(len(self.levels))]
        self.members = [len(inside.source) for inside in members]
        self.sides = [_choose_sides(inside, int(side)) for inside, side in zip(members, self.levels, strict=True)]

    def capacity(self, level: int) -> int:
        most, members = super().capacity(level), max(1, self.members[level])
        batches = -(-members // most)
        even = -(-members // batches)
        rows = -(-even // 8) * 8  # tensor cores are fastest with multiples of eight
        return min(rows, most // 8 * 8 if most >= 64 else most)

    def shape(self, level: int, rows: int, source: int, target: int) -> Shape:
        full = self.capacity(level)
        fits = next(size for size in (full >> halving for halving in range(HALVINGS, -1, -1)) if size >= rows)
        return next(Shape(fits, s, t) for s, t in self.sides[level] if s >= source and t >= target)


def _choose_levels(longer: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " levels"]:
    """Return at most LEVELS lengths with the least padding when each row is padded to the next of them."""
    values, counts = np.unique(longer, return_counts=True)
    padded = np.broadcast_to(values, (len(values), len(values)))
    return values[[last for _, last in _partition(_rows_between(counts) * padded, LEVELS)]]


def _choose_sides(lengths: Lengths, level: int) -> list[tuple[int, int]]:
    """Return at most CORNERS + 1 shapes with the least padding for rows whose longer side is padded to `level`."""
    values, counts = np.unique(lengths.corner(level), return_counts=True)
    chosen = {(level, level)}  # large enough for every row of the level
    if len(values):
        target = np.minimum(values, level)[None, :]  # for rows up to the last one
        source = np.minimum(2 * level - values, level)[:, None]  # for rows from the first one on
        groups = _partition(_rows_between(counts) * (source + target), CORNERS)
        chosen |= {(int(source[first, 0]), int(target[0, last])) for first, last in groups}
    return sorted(chosen, key=lambda sides: (sum(sides), sides))


def _rows_between(counts: Integer[np.ndarray, " k"]) -> Float[np.ndarray, "k k"]:
    """Return the number of rows from the i-th to the j-th value as a matrix; infinity where i > j."""
    ends = np.cumsum(counts).astype(float)
    between = ends[None, :] - (ends - counts)[:, None]
    between[np.tril_indices(len(counts), -1)] = np.inf
    return between


def _partition(cost: Float[np.ndarray, "k k"], groups: int) -> list[tuple[int, int]]:
    """Divide range(k) into at most `groups` intervals of least total cost, by dynamic programming."""
    best = cost[0]
    cuts: list[np.ndarray] = []
    for _ in range(groups - 1):
        total = np.concatenate(([0.0], best[:-1]))[:, None] + cost
        total[0] = best  # one interval fewer
        cuts.append(total.argmin(axis=0))
        best = total.min(axis=0)
    intervals, last = [], len(cost) - 1
    for cut in reversed(cuts):
        first = int(cut[last])
        if first:
            intervals.append((first, last))
            last = first - 1
    return [*reversed([*intervals, (0, last)])]
