"""Learning-rate schedules: functions from step to a factor of the peak rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


def climb(step: int, warmup: int) -> float:
    """From nothing to one, in a straight line. Steps count from 1."""
    return min(1.0, step / max(1, warmup))


@dataclass(frozen=True)
class Noam:
    """The paper's: width^-0.5 * min(step^-0.5, step * warmup^-1.5) (equation 3); `learning_rate` multiplies it."""

    kind: Literal["noam"] = "noam"
    warmup: int = 4000  # steps of rising rate

    def factor(self, step: int, total: int, width: int) -> float:
        return width**-0.5 * min(step**-0.5, step * max(1, self.warmup) ** -1.5)


@dataclass(frozen=True)
class InverseRoot:
    """A straight rise, then the inverse square root of the step."""

    kind: Literal["inverse_root"] = "inverse_root"
    warmup: int = 1000  # steps of rising rate
    most: float | None = None  # share of all steps that the rise may take; unset: any

    def __post_init__(self) -> None:
        if self.most is not None and not 0 < self.most <= 1:
            raise ValueError(f"most is {self.most}; it must be more than 0 and at most 1")

    def factor(self, step: int, total: int, width: int) -> float:
        return climb(step, self.warmup) * math.sqrt(max(1, self.warmup) / max(step, self.warmup, 1))


@dataclass(frozen=True)
class Cosine:
    """A straight rise, then half a cosine down to `floor` at the last step."""

    kind: Literal["cosine"] = "cosine"
    warmup: int = 1000  # steps of rising rate
    floor: float = 0.02  # share of the peak that is left at the end

    def factor(self, step: int, total: int, width: int) -> float:
        if step <= self.warmup:
            return climb(step, self.warmup)
        done = min(1.0, (step - self.warmup) / max(1, total - self.warmup))
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class Constant:
    """A straight rise, then always the same."""

    kind: Literal["constant"] = "constant"
    warmup: int = 0  # steps of rising rate

    def factor(self, step: int, total: int, width: int) -> float:
        return climb(step, self.warmup)


Schedule = Noam | InverseRoot | Cosine | Constant


def with_rise(schedule: Schedule, total: int) -> Schedule:
    """With the rise that a run of so many steps has; should more steps be asked for later, it stays."""
    if not isinstance(schedule, InverseRoot) or schedule.most is None:
        return schedule
    return InverseRoot(warmup=max(1, min(schedule.warmup, int(schedule.most * total))))
