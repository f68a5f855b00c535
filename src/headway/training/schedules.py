"""Learning-rate schedules: functions from step to a factor of the peak rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


class Rising:
    """From nothing to one, in a straight line. Steps count from 1."""

    warmup: int

    def rise(self, total: int) -> int:  # noqa: ARG002
        """Steps until the peak."""
        return max(1, self.warmup)

    def climb(self, step: int, total: int) -> float:
        return min(1.0, step / self.rise(total))


@dataclass(frozen=True)
class Noam(Rising):
    """The paper's: width^-0.5 * min(step^-0.5, step * warmup^-1.5) (equation 3); `learning_rate` multiplies it."""

    kind: Literal["noam"] = "noam"
    warmup: int = 4000  # steps of rising rate

    def factor(self, step: int, total: int, width: int) -> float:
        return width**-0.5 * min(step**-0.5, step * self.rise(total) ** -1.5)


@dataclass(frozen=True)
class InverseRoot(Rising):
    """A straight rise, then the inverse square root of the step."""

    kind: Literal["inverse_root"] = "inverse_root"
    warmup: int = 1000  # steps of rising rate
    most: float = 1.0  # share of all steps that the rise may take

    def __post_init__(self) -> None:
        if not 0 < self.most <= 1:
            raise ValueError(f"most is {self.most}; it must be more than 0 and at most 1")

    def rise(self, total: int) -> int:
        return max(1, min(self.warmup, int(self.most * total)))

    def factor(self, step: int, total: int, width: int) -> float:
        peak = self.rise(total)
        return self.climb(step, total) * math.sqrt(peak / max(step, peak))


@dataclass(frozen=True)
class Cosine(Rising):
    """A straight rise, then half a cosine down to `floor` at the last step."""

    kind: Literal["cosine"] = "cosine"
    warmup: int = 1000  # steps of rising rate
    floor: float = 0.02  # share of the peak that is left at the end

    def factor(self, step: int, total: int, width: int) -> float:
        if step <= self.warmup:
            return self.climb(step, total)
        done = min(1.0, (step - self.warmup) / max(1, total - self.warmup))
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class Constant(Rising):
    """A straight rise, then always the same."""

    kind: Literal["constant"] = "constant"
    warmup: int = 0  # steps of rising rate

    def factor(self, step: int, total: int, width: int) -> float:
        return self.climb(step, total)


Schedule = Noam | InverseRoot | Cosine | Constant
