"""Checks of lengths: blank lines, overlong lines, pairs of very different lengths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

from headway.data.checks.base import Finding, Sightings, percent
from headway.data.checks.blocks import Block, Side
from headway.data.checks.kinds import KIND
from headway.data.filters import SHORTEST

LONGEST = 250  # tokens; the default of data.longest
RATIO = 12.0  # the default of data.ratio
HEADS, LAYERS, FLOAT = 8, 6, 4  # heads, layers and bytes of a number in a base model


class Blanks:
    """A check for blank lines on one or both sides."""

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
        yield from self.both.finding(severe, "lines blank on both sides", "they are dropped in training")
        advice = "they are dropped in training; if there are many, one side may be shifted"
        severe = "fatal" if self.one.count > 0.5 * self.lines else "warning"
        yield from self.one.finding(severe, "lines blank on one side only", advice)


def blank(side: Side) -> Bool[np.ndarray, " n"]:
    empty = side.lengths == 0
    rows = np.flatnonzero(side.kinds[:, 0] == side.lengths + 1)  # lines without letters, digits and marks
    empty[[row for row in rows if not side.texts[row].strip()]] = True
    return empty


def pieces(side: Side) -> np.ndarray:
    """Return an estimate of the number of subword tokens: one for four letters or 1.5 Han characters."""
    dense = side.kinds[:, KIND["CJK"]] + side.kinds[:, KIND["KANA"]]
    return (side.lengths - dense) / 4 + dense / 1.5


class Lengths:
    """A check for pairs that training drops because of their length, and the memory they would need."""

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
        title = f"sentences of more than about {LONGEST} tokens ({share})"
        advice = (
            f"dropped in training (data.longest); the longest, {self.longest:,.0f} tokens, would need {cost:.2g} GB "
            f"for its attention weights alone ({HEADS} heads, {LAYERS} layers)"
        )
        severe = "warning" if self.long.count > 0.01 * self.lines else "note"
        yield from self.long.finding(severe, title, advice)
        severe = "warning" if self.uneven.count > 0.01 * self.lines else "note"
        title = f"one side over {RATIO:g} times longer than the other ({percent(self.uneven.count, self.lines)})"
        yield from self.uneven.finding(
            severe, title, "dropped in training unless data.ratio is 0; are they translations?"
        )
