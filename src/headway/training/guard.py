"""Watches the numbers of a run: what is not finite, and losses that leave their range."""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean, pstdev

WINDOW = 400
PATIENCE = 10
SIGMAS = 6.0


class Guard:
    """Skipped steps are counted; too many in a row, or a mean loss far outside its range, is a divergence."""

    def __init__(self) -> None:
        self.losses: deque[float] = deque(maxlen=WINDOW)
        self.recent: deque[float] = deque(maxlen=PATIENCE)
        self.bad_in_a_row = 0
        self.skipped = 0

    def see(self, loss: float, finite: bool) -> str | None:
        """The reason to go back, or None."""
        if not finite or not math.isfinite(loss):
            self.skipped += 1
            self.bad_in_a_row += 1
            return f"{PATIENCE} steps in a row were not finite" if self.bad_in_a_row >= PATIENCE else None
        self.bad_in_a_row = 0
        self.recent.append(loss)
        reason = self.spike()
        self.losses.append(loss)
        return reason

    def spike(self) -> str | None:
        if len(self.losses) < WINDOW // 2:
            return None
        middle, width = fmean(self.losses), pstdev(self.losses)
        now = fmean(self.recent)
        if now > middle + SIGMAS * width and now > 1.5 * middle:
            return f"the loss rose to {now:.2f}, from {middle:.2f} on average"
        return None

    def reset(self) -> None:
        self.losses.clear()
        self.recent.clear()
        self.bad_in_a_row = 0
