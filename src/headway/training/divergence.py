"""Watches the numbers of a run: what is not finite, and losses that leave their range."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean

WINDOW = 400  # losses that make the usual range
PATIENCE = 10
SIGMAS = 6.0
LOST = 0.5  # share of the way from the first losses to the best ones


class Diverging(Exception):
    """The numbers left their range; the loop goes back to the last checkpoint."""


@dataclass
class Guard:
    """A divergence is too many steps in a row that are not finite, a loss far outside its range, or a slow way back."""

    losses: list[float] = field(default_factory=list)
    bad_in_a_row: int = 0
    first: float | None = None  # the mean of the first full window,
    best: float | None = None  # and of the best one

    def see(self, loss: float, finite: bool) -> str | None:
        """The reason to go back, or None."""
        if not finite or not math.isfinite(loss):
            self.bad_in_a_row += 1
            return f"{PATIENCE} steps in a row were not finite" if self.bad_in_a_row >= PATIENCE else None
        self.bad_in_a_row = 0
        usual, self.losses = self.losses, [*self.losses, loss][-WINDOW:]
        return spike(usual, now=fmean(self.losses[-PATIENCE:])) or self.lost()

    def lost(self) -> str | None:
        """A loss that creeps up takes its range along; but it has a long way to go before half of it is gone."""
        if len(self.losses) < WINDOW:
            return None
        now = fmean(self.losses)
        self.first, self.best = self.first or now, min(now, self.best or now)
        risen, learned = now - self.best, self.first - self.best
        if risen <= learned * LOST or min(risen, learned) <= SIGMAS * deviation(self.losses, now):
            return None
        return f"the loss rose to {now:.2f} again, from {self.best:.2f}: half of what was learned is lost"


def deviation(losses: list[float], mean: float) -> float:
    """The standard one. `statistics.pstdev` reckons with fractions: 0.3 ms, and a flat loss asks at every step."""
    return math.sqrt(fmean((loss - mean) ** 2 for loss in losses))


def spike(usual: list[float], now: float) -> str | None:
    middle = fmean(usual) if usual else math.inf
    if len(usual) < WINDOW // 2 or now <= 1.5 * middle or now <= middle + SIGMAS * deviation(usual, middle):
        return None
    return f"the loss rose to {now:.2f}, from {middle:.2f} on average"
