"""Where the two sides part: a line too many or too few, after which nothing matches any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from headway.data.checks.blocks import Block
from headway.data.checks.likeness import Likeness, Marks, Traits, join, traits

SAMPLE = 16_384  # lines to learn from before judging
FEWEST = 60  # lines; below, nothing can be learnt
WINDOW = 256  # lines that are assumed to be shifted by the same number while learning
FAR_AWAY = 512  # the largest shift that is followed
SURE = 30.0  # nats of evidence for a shift
LOST = 90.0  # nats of evidence that no line matches any more


class Slip(NamedTuple):
    """From source line `line` on, source line i belongs to target line i + `shift` (None: to no line near)."""

    line: int
    shift: int | None


class Tracker:
    """Follows the shift between the sides through the corpus, by the sums of CUSUM (Page 1954).

    For every other shift, evidence for it and against the present one is added up, never below zero. When a sum is
    high enough, the sides have slipped where that sum last left zero.
    """

    def __init__(self, likeness: Likeness, reach: int, difference: int) -> None:
        self.likeness = likeness
        self.reach = reach
        self.difference = difference  # target lines minus source lines
        self.shift: int | None = 0
        self.slips: list[Slip] = []
        self.row = 0  # the next source line to judge, counted from 0
        self.base = 0  # the line that the arrays below begin with
        self.source: Marks | None = None
        self.target: Marks | None = None
        self._start_again()

    def _start_again(self) -> None:
        centre = self.shift or 0
        near = set(range(centre - self.reach, centre + self.reach + 1)) | {0, self.difference}
        self.shifts = sorted(shift for shift in near if abs(shift) <= FAR_AWAY)
        self.sums = np.zeros(len(self.shifts) + 1)
        self.since = np.full(len(self.shifts) + 1, self.row)

    def feed(self, source: Traits, target: Traits, last: bool = False) -> None:
        ours, theirs = self.likeness.mark_source(source), self.likeness.mark_target(target)
        self.source = _stack(self.source, ours)
        self.target = _stack(self.target, theirs)
        # A row can be judged when all its possible partners are there.
        ready = min(self.base + len(self.source), self.base + len(self.target) - (0 if last else FAR_AWAY))
        while self.row < ready:
            self._judge(ready)
        self._forget()

    def _forget(self) -> None:
        assert self.source is not None and self.target is not None
        start = max(0, self.row - FAR_AWAY - self.base)
        self.source, self.target, self.base = self.source[start:], self.target[start:], self.base + start

    def _judge(self, ready: int) -> None:
        """Judge rows up to the first slip or the end."""
        odds = self._odds(self.row, ready)
        present = self.shifts.index(self.shift) if self.shift is not None else -1
        gains = odds - odds[:, [present]]
        sums, since = _cusum(gains, self.sums, self.since, self.row)
        sure = np.full(len(self.shifts) + 1, SURE)
        sure[-1] = LOST
        over = sums > sure
        rows = np.flatnonzero(over.any(1))
        if not len(rows):
            self.sums, self.since, self.row = sums[-1], since[-1], ready
            return
        row = rows[0]
        state = int(np.argmax(np.where(over[row], sums[row], -1)))
        self.shift = self.shifts[state] if state < len(self.shifts) else None
        self.slips.append(Slip(int(since[row, state]) + 1, self.shift))
        self.row += int(row) + 1
        self._start_again()

    def _odds(self, start: int, end: int) -> Float[np.ndarray, "rows states"]:
        """Evidence that each source line belongs to the target line at each shift; nothing speaks for being lost."""
        assert self.source is not None and self.target is not None
        rows = np.arange(start, end)
        ours = self.source[rows - self.base]
        odds = np.zeros((len(rows), len(self.shifts) + 1))
        for column, shift in enumerate(self.shifts):
            partner = rows + shift - self.base
            there = (partner >= 0) & (partner < len(self.target))
            odds[there, column] = self.likeness.score(ours[there], self.target[partner[there]])
            odds[~there, column] = -1.0  # no partner there
        return odds


def _stack(old: Marks | None, new: Marks) -> Marks:
    if old is None:
        return new
    return Marks(np.concatenate((old.classes, new.classes)), np.concatenate((old.words, new.words)))


def _cusum(gains, sums, since, row):
    """sums[i] = max(0, sums[i-1] + gains[i]), and the row where each sum last left zero."""
    total = np.cumsum(gains, axis=0) + sums
    lowest = np.minimum(np.minimum.accumulate(total, axis=0), 0)
    rows = row + 1 + np.arange(len(gains))[:, None]
    at_lowest = (total <= lowest)
    since = np.maximum.accumulate(np.where(at_lowest, rows, since), axis=0)
    return total - lowest, since
