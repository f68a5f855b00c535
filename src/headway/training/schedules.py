"""Learning-rate schedules: functions from the step to a factor of the peak learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


def climb(step: int, warmup: int) -> float:
    """The factor of a linear warm-up, from 0 to 1. Steps count from 1."""
    return min(1.0, step / max(1, warmup))


@dataclass(frozen=True)
class Noam:
    """The paper's: width^-0.5 * min(step^-0.5, step * warmup^-1.5) (equation 3); `learning_rate` multiplies it."""

    kind: Literal["noam"] = "noam"
    warmup: int = 4000  # number of warm-up steps

    def factor(self, step: int, total: int, width: int) -> float:
        return width**-0.5 * min(step**-0.5, step * max(1, self.warmup) ** -1.5)


@dataclass(frozen=True)
class InverseRoot:
    """Linear warm-up, then the inverse square root of the step."""

    kind: Literal["inverse_root"] = "inverse_root"
    warmup: int = 1000  # number of warm-up steps
    max_warmup_share: float | None = None  # maximum share of all steps that the warm-up may take; unset: no limit

    def __post_init__(self) -> None:
        if self.max_warmup_share is not None and not 0 < self.max_warmup_share <= 1:
            raise ValueError(f"max_warmup_share is {self.max_warmup_share}; it must be more than 0 and at most 1")

    def factor(self, step: int, total: int, width: int) -> float:
        return climb(step, self.warmup) * math.sqrt(max(1, self.warmup) / max(step, self.warmup, 1))


@dataclass(frozen=True)
class Cosine:
    """Linear warm-up, then half a cosine down to `floor` at the last step."""

    kind: Literal["cosine"] = "cosine"
    warmup: int = 1000  # number of warm-up steps
    floor: float = 0.02  # final learning rate, as a share of the peak

    def factor(self, step: int, total: int, width: int) -> float:
        if step <= self.warmup:
            return climb(step, self.warmup)
        done = min(1.0, (step - self.warmup) / max(1, total - self.warmup))
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class Constant:
    """Linear warm-up, then constant."""

    kind: Literal["constant"] = "constant"
    warmup: int = 0  # number of warm-up steps

    def factor(self, step: int, total: int, width: int) -> float:
        return climb(step, self.warmup)


Schedule = Noam | InverseRoot | Cosine | Constant


def with_warmup(schedule: Schedule, total: int) -> Schedule:
    """The schedule with its warm-up fixed for a run of `total` steps. It stays so if the run is made longer later."""
    if not isinstance(schedule, InverseRoot) or schedule.max_warmup_share is None:
        return schedule
    return InverseRoot(warmup=max(1, min(schedule.warmup, int(schedule.max_warmup_share * total))))
