"""Blank lines, lines far too long, pairs with one side far longer than the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

from headway.data.checks.base import Finding, Sightings, percent
from headway.data.checks.blocks import Block, Side
from headway.data.checks.kinds import KIND
from headway.data.filters import SHORTEST

LONGEST = 250  # pieces, what training takes by default
RATIO = 12.0  # characters of one side for each of the other, what training takes by default
HEADS, LAYERS, FLOAT = 8, 6, 4  # of a base model, to say what a long sentence costs


class Blanks:
    """Lines with nothing to read or nothing to write."""

    def __init__(self) -> None:
        self.lines = 0
        self.both, self.one = Sightings(), Sightings()

    def look(self, block: Block) -> None:
        self.lines += block.paired
        ours, theirs = (blank(side)[: block.paired] for side in block.sides)
        self.both.add_all(block.source, np.flatnonzero(ours & theirs))
        self.one.add_all(block.target, np.flatnonzero(ours & ~theirs))
        self.one.add_all(block.source, np.flatnonzero(theirs & ~ours))

    def findings(self) -> Iterator[Finding]:
        nothing_left = self.both.count + self.one.count == self.lines
        severe = "fatal" if nothing_left else "note"
        yield from self.both.finding(severe, "lines blank on both sides", "they are left out of training")
        advice = "they are left out of training; if there are many, has one side been shifted?"
        severe = "fatal" if self.one.count > 0.5 * self.lines else "warning"
        yield from self.one.finding(severe, "lines blank on one side only", advice)


def blank(side: Side) -> Bool[np.ndarray, " n"]:
    empty = side.lengths == 0
    rows = np.flatnonzero(side.kinds[:, 0] == side.lengths + 1)  # nothing but plain characters, and the line end
    empty[[row for row in rows if not side.texts[row].strip()]] = True
    return empty


def pieces(side: Side) -> np.ndarray:
    """A guess at the number of subword pieces: four letters make one, or one and a half Han characters."""
    dense = side.kinds[:, KIND["CJK"]] + side.kinds[:, KIND["KANA"]]
    return (side.lengths - dense) / 4 + dense / 1.5


class Lengths:
    """What is left out for its length, and what it would have cost in memory."""

    def __init__(self) -> None:
        self.lines = 0
        self.longest = 0.0
        self.long, self.uneven = Sightings(), Sightings()

    def look(self, block: Block) -> None:
        self.lines += block.paired
        for side in block.sides:
            guess = pieces(side)
            self.longest = max(self.longest, float(guess.max(initial=0)))
            self.long.add_all(side, np.flatnonzero(guess > LONGEST))
        ours, theirs = (side.lengths[: block.paired] for side in block.sides)
        shorter, longer = np.minimum(ours, theirs), np.maximum(ours, theirs)
        uneven = (longer > RATIO * np.maximum(shorter, SHORTEST)) & (shorter > 0)
        self.uneven.add_all(block.source, np.flatnonzero(uneven))

    def findings(self) -> Iterator[Finding]:
        cost = self.longest**2 * HEADS * LAYERS * FLOAT / 1e9
        share = percent(self.long.count, self.lines)
        title = f"sentences of more than {LONGEST} pieces, by a guess ({share})"
        advice = (
            f"left out of training (data.longest); the longest, {self.longest:,.0f} pieces, would need {cost:.2g} GB "
            f"for its attention weights alone ({HEADS} heads, {LAYERS} layers)"
        )
        severe = "warning" if self.long.count > 0.01 * self.lines else "note"
        yield from self.long.finding(severe, title, advice)
        severe = "warning" if self.uneven.count > 0.01 * self.lines else "note"
        title = f"one side over {RATIO:g} times longer than the other ({percent(self.uneven.count, self.lines)})"
        yield from self.uneven.finding(
            severe, title, "left out of training, unless data.ratio is 0; do they translate each other?"
        )
