"""Track the offset between the lines of two sides through a corpus, and detect where it changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from headway.data.checks.likeness import Likeness, Marks

FAR_AWAY = 4096  # the largest shift that is detected, in lines
STRIDE = 4096  # lines scored at once; they are scored again after a slip
SURE = 45.0  # nats of evidence from which a shift is detected
NO_PARTNER = -1.0  # score in nats of a line whose partner is outside the file
LOST = 90.0  # nats of evidence from which no line matches any more


class Slip(NamedTuple):
    """From source line `line` on, source line i matches target line i + `shift` (None: no line nearby)."""

    line: int
    shift: int | None


class View(NamedTuple):
    """The prepared lines of both sides from index `base` on, and their score."""

    likeness: Likeness
    source: Marks
    target: Marks
    base: int


class Tracker:
    """Tracks the shift between the sides by CUSUM change detection (Page 1954).

    For every other shift, evidence for it and against the present one is summed, never below zero. When a sum exceeds
    the threshold, the sides have slipped at the line where that sum last left zero.
    """

    def __init__(self, reach: int, difference: int) -> None:
        self.reach = reach
        self.difference = difference  # target lines minus source lines
        self.shift: int | None = 0
        self.slips: list[Slip] = []
        self.row = 0  # index of the next source line to score
        self._start_again()

    def _start_again(self) -> None:
        centre = self.shift or 0
        near = set(range(centre - self.reach, centre + self.reach + 1)) | {0, self.difference}
        self.shifts = sorted(shift for shift in near if abs(shift) <= FAR_AWAY)
        self.sums = np.zeros(len(self.shifts) + 1)
        self.since = np.full(len(self.shifts) + 1, self.row)

    def follow(self, view: View, last: bool) -> None:
        """Score the lines in view; unless they are the last, those whose partner may be out of view wait."""
        end = view.base + min(len(view.source), len(view.target) - (0 if last else FAR_AWAY))
        while self.row < end:
            self._judge(view, min(end, self.row + STRIDE))

    def _judge(self, view: View, end: int) -> None:
        """Score rows up to the first slip or `end`."""
        odds = _odds(view, np.arange(self.row, end), self.shifts)
        present = self.shifts.index(self.shift) if self.shift is not None else -1
        gains = odds - odds[:, [present]]
        sums, since = _cusum(gains, self.sums, self.since, self.row)
        sure = np.full(len(self.shifts) + 1, SURE)
        sure[-1] = LOST
        over = sums > sure
        rows = np.flatnonzero(over.any(1))
        if not len(rows):
            self.sums, self.since, self.row = sums[-1], since[-1], end
            return
        row = rows[0]
        state = int(np.argmax(np.where(over[row], sums[row], -1)))
        self.shift = self.shifts[state] if state < len(self.shifts) else None
        self.slips.append(Slip(int(since[row, state]) + 1, self.shift))
        self.row += int(row) + 1
        self._start_again()


def _odds(view: View, rows: Int[np.ndarray, " rows"], shifts: list[int]) -> Float[np.ndarray, "rows states"]:
    """Return the score of each source line with the target line at each shift; 0 for "no match at all"."""
    ours = view.source[rows - view.base]
    odds = np.zeros((len(rows), len(shifts) + 1))
    for column, shift in enumerate(shifts):
        partner = rows + shift - view.base
        there = (partner >= 0) & (partner < len(view.target))
        odds[there, column] = view.likeness.score(ours[there], view.target[partner[there]])
        odds[~there, column] = NO_PARTNER
    return odds


def _cusum(
    gains: Float[np.ndarray, "rows states"],
    sums: Float[np.ndarray, " states"],
    since: Int[np.ndarray, " states"],
    row: int,
) -> tuple[Float[np.ndarray, "rows states"], Int[np.ndarray, "rows states"]]:
    """Return sums[i] = max(0, sums[i - 1] + gains[i]), and the row after which each sum was last zero."""
    total = np.cumsum(gains, axis=0) + sums
    lowest = np.minimum(np.minimum.accumulate(total, axis=0), 0)
    rows = row + 1 + np.arange(len(gains))[:, None]
    return total - lowest, np.maximum.accumulate(np.where(total <= lowest, rows, since), axis=0)
