"""The clock of a run with a budget of minutes: how many steps fit, decided anew while training, and written down."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headway.storage import files

NAME = "budget.json"
REVIEWS = 25  # in a run, about
TOLERANCE = 0.02  # share of all steps by which the total may be wrong before it is changed
RESERVE = 0.03  # share of the budget that is left for saving
FIRST_MODEL_SECONDS = 60.0  # after so long a model is published, measured or not


@dataclass(frozen=True)
class Decision:
    """From this step on, train to `total` steps."""

    step: int
    total: int


@dataclass(frozen=True)
class Budget:
    """A number of seconds and all decisions that it has led to, in the order of their steps."""

    seconds: float
    decisions: tuple[Decision, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Budget | None:
        """The budget of the run whose state lies in this folder; None if it trains for a number of steps."""
        try:
            facts = json.loads((folder / NAME).read_bytes())
            return cls(float(facts["seconds"]), tuple(Decision(**one) for one in facts["decisions"]))
        except (OSError, ValueError, TypeError, LookupError):
            return None

    def write(self, folder: Path) -> None:
        files.replace_text(folder / NAME, json.dumps(asdict(self)))

    def total(self, step: int) -> int | None:
        """The number of steps that holds after this step was made."""
        return next((one.total for one in reversed(self.decisions) if one.step <= step), None)

    def after(self, step: int) -> tuple[Decision, ...]:
        return tuple(one for one in self.decisions if one.step > step)

    def decide(self, decision: Decision) -> Budget:
        """With one decision more; those of later steps are forgotten."""
        return Budget(self.seconds, (*(one for one in self.decisions if one.step < decision.step), decision))


def fitting_steps(seconds: float, step: float, validation: float, every: int | None) -> int:
    """How many steps fit into the seconds, with a validation after every so many and one at the end."""
    per_step = step + (validation / every if every else 0.0)
    return max(0, int((seconds - validation) / max(per_step, 1e-9)))


@dataclass
class Pacer:
    """Measures a run and decides when its number of steps should change. Recorded decisions are repeated as they were.

    One process measures; the others follow its decisions.
    """

    spent: float = 0.0  # seconds of training, validating and saving, over all starts
    budget: Budget | None = None  # None: the number of steps is fixed
    clock: Callable[[], float] = time.monotonic
    validation: float = 0.0  # seconds of the last one
    recorded: list[Decision] = field(default_factory=list)  # of an earlier start, still to be repeated
    steps: int = 0  # since the last review
    seconds: float = 0.0  # of these steps
    began: float = 0.0

    def start(self) -> None:
        self.began = self.clock()

    def lap(self) -> float:
        """Seconds since the last lap. They count as spent."""
        now = self.clock()
        took, self.began = now - self.began, now
        self.spent += took
        return took

    def stepped(self) -> None:
        self.steps, self.seconds = self.steps + 1, self.seconds + self.lap()

    def validated(self) -> None:
        self.validation = self.lap()

    @property
    def due(self) -> bool:
        """Whether enough was measured to judge the number of steps again."""
        if self.budget is None or self.recorded or not self.steps:
            return False
        return self.seconds >= self.budget.seconds / REVIEWS

    def review(self, step: int, total: int, every: int | None) -> int:
        """The number of steps that fit now; the same number where it is about right."""
        assert self.budget is not None
        left = self.budget.seconds * (1 - RESERVE) - self.spent
        fitting = step + max(1, fitting_steps(left, self.seconds / self.steps, self.validation, every))
        self.steps, self.seconds = 0, 0.0
        return fitting if abs(fitting - total) > TOLERANCE * total else total

    def rewind(self, step: int) -> int | None:
        """Go back to a step: the number of steps that held there. What was decided later is repeated."""
        self.steps, self.seconds = 0, 0.0
        if self.budget is None:
            return None
        self.recorded = list(self.budget.after(step))
        return self.budget.total(step)

    def repeat(self, step: int) -> int | None:
        """The number of steps that an earlier start decided on at this step."""
        found = None
        while self.recorded and self.recorded[0].step <= step:
            found = self.recorded.pop(0).total
        return found
