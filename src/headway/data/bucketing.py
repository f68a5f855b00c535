"""Which rows share a batch, so that little of it is padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

LEVELS = 8  # lengths to which the longer side of a batch may be padded
CORNERS = 3  # shapes at each level
HALVINGS = 2  # the last batch of a window may have a half or a quarter of the usual rows
JITTER = 2.0  # positions; over 1, more than equal lengths change places, so batches differ between epochs
FINEST = 256  # distinct lengths looked at when levels are chosen


class Shape(NamedTuple):
    """How large a batch is, padding included."""

    rows: int
    source: int
    target: int


@dataclass(frozen=True)
class Lengths:
    """The positions that each row needs on either side."""

    source: Integer[np.ndarray, " n"]
    target: Integer[np.ndarray, " n"]

    def longer(self) -> Integer[np.ndarray, " n"]:
        return np.maximum(self.source, self.target)

    def corner(self, level: Integer[np.ndarray, " n"] | int) -> Integer[np.ndarray, " n"]:
        """A walk along two edges of a square of side `level`: first the target grows, then the source shrinks.

        Neighbours on this walk fit each other on both sides.
        """
        return np.where(self.source > self.target, self.target, 2 * level - self.source)

    def take(self, rows: Integer[np.ndarray, " k"] | slice) -> Lengths:
        return Lengths(self.source[rows], self.target[rows])


@dataclass(frozen=True)
class Plan:
    """The batches of one window in the order of training."""

    rows: Integer[np.ndarray, " n"]  # the window's rows, batch after batch
    cuts: Sequence[int]  # where each batch begins in them, and the end
    shapes: Sequence[Shape]
    turns: Integer[np.ndarray, " k"]  # the batches, shuffled

    def __len__(self) -> int:
        return len(self.shapes)

    def batch(self, number: int) -> tuple[Integer[np.ndarray, " b"], Shape]:
        turn = int(self.turns[number])
        return self.rows[self.cuts[turn] : self.cuts[turn + 1]], self.shapes[turn]


class Exact:
    """Every batch is as long as its longest row and has as many rows as the budget allows."""

    def __init__(self, tokens: int, sentences: int | None, longest: int) -> None:
        self.tokens = tokens
        self.sentences = sentences or tokens
        self.levels = np.arange(longest + 1)

    def pack(self, lengths: Lengths, rng: np.random.Generator) -> Plan:
        """Sort by the longer side, then along the corner; cut full batches from the longest down; shuffle them."""
        level = np.searchsorted(self.levels, lengths.longer())
        corner = lengths.corner(self.levels[level]) + JITTER * rng.random(len(level))
        onward = (level + rng.integers(2)) % 2 == 0  # each level begins where the one before it ended
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
        """How many rows a batch whose longest row is of this level holds."""
        return min(self.tokens // int(self.levels[level]), self.sentences)

    def shape(self, level: int, rows: int, source: int, target: int) -> Shape:
        """The shape that holds these rows."""
        return Shape(rows, source, target)

    def known_shapes(self) -> list[Shape]:
        """The shapes to expect, for a warm-up: all but that of a window's last batch, or none."""
        return []


class Bounded(Exact):
    """Few shapes, chosen by the lengths of a sample: for compiled programs and CUDA graphs, made once a shape.

    The padded lengths alone decide how many rows a batch has, and they do so that the rows of one level come out
    even. Only the last batch of a window may have a half or a quarter of its rows; dummy rows fill the rest.
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
        rows = -(-even // 8) * 8  # tensor cores like multiples of eight
        return min(rows, most // 8 * 8 if most >= 64 else most)

    def shape(self, level: int, rows: int, source: int, target: int) -> Shape:
        full = self.capacity(level)
        fits = next(size for size in (full >> halving for halving in range(HALVINGS, -1, -1)) if size >= rows)
        return next(Shape(fits, s, t) for s, t in self.sides[level] if s >= source and t >= target)

    def known_shapes(self) -> list[Shape]:
        return [Shape(self.capacity(level), *sides) for level, both in enumerate(self.sides) for sides in both]


def _choose_levels(longer: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " levels"]:
    """The few lengths that waste least when every row is padded to the next of them."""
    values, counts = np.unique(longer, return_counts=True)
    padded = np.broadcast_to(values, (len(values), len(values)))
    return values[[last for _, last in _partition(_rows_between(counts) * padded, LEVELS)]]


def _choose_sides(lengths: Lengths, level: int) -> list[tuple[int, int]]:
    """The few shapes that waste least for rows whose longer side is padded to `level`, smallest first."""
    values, counts = np.unique(lengths.corner(level), return_counts=True)
    chosen = {(level, level)}  # holds every row of the level
    if len(values):
        target = np.minimum(values, level)[None, :]  # of rows up to the last
        source = np.minimum(2 * level - values, level)[:, None]  # of rows from the first on
        groups = _partition(_rows_between(counts) * (source + target), CORNERS)
        chosen |= {(int(source[first, 0]), int(target[0, last])) for first, last in groups}
    return sorted(chosen, key=lambda sides: (sum(sides), sides))


def _rows_between(counts: Integer[np.ndarray, " k"]) -> Float[np.ndarray, "k k"]:
    """How many rows have a value between the i-th and the j-th; infinitely many where i > j."""
    ends = np.cumsum(counts).astype(float)
    between = ends[None, :] - (ends - counts)[:, None]
    between[np.tril_indices(len(counts), -1)] = np.inf
    return between


def _partition(cost: Float[np.ndarray, "k k"], groups: int) -> list[tuple[int, int]]:
    """Cut range(k) into at most `groups` pieces of least total cost, by dynamic programming."""
    best = cost[0]
    cuts: list[np.ndarray] = []
    for _ in range(groups - 1):
        total = np.concatenate(([0.0], best[:-1]))[:, None] + cost
        total[0] = best  # one piece fewer
        cuts.append(total.argmin(axis=0))
        best = total.min(axis=0)
    pieces, last = [], len(cost) - 1
    for cut in reversed(cuts):
        first = int(cut[last])
        if first:
            pieces.append((first, last))
            last = first - 1
    return [*reversed([*pieces, (0, last)])]
