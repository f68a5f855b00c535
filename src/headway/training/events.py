"""What the training loop tells the world. It prints nothing itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Event:
    """Something that happened at a step."""

    name: ClassVar[str] = "event"
    step: int

    def line(self, time: float) -> dict[str, Any]:
        """As a line of metrics.jsonl."""
        return {"event": self.name, "time": round(time, 3), **asdict(self)}


@dataclass(frozen=True)
class Planned(Event):
    name: ClassVar[str] = "plan"
    total: int
    plan: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stepped(Event):
    """The mean of the steps since the last one of these."""

    name: ClassVar[str] = "step"
    total: int
    loss: float
    nll: float
    lr: float
    grad_norm: float
    tokens: int
    tokens_per_second: float
    epoch: float
    seconds: float
    skipped: int = 0

    def line(self, time: float) -> dict[str, Any]:
        """Without numbers that are not finite: JSON knows none."""
        return {key: value for key, value in super().line(time).items() if value == value}


@dataclass(frozen=True)
class Validated(Event):
    name: ClassVar[str] = "validate"
    scores: dict[str, float]
    sample: dict[str, str]
    best: bool
    facts: dict[str, Any] = field(default_factory=dict)  # published with the model, not written in the log
    attention: dict[str, Any] = field(default_factory=dict)  # where it looked while writing the sample

    def line(self, time: float) -> dict[str, Any]:
        facts = {"event": self.name, "step": self.step, "time": round(time, 3), "best": self.best}
        looked = {"attention": self.attention} if self.attention else {}
        return {**facts, **self.scores, "sample": self.sample, **looked}


@dataclass(frozen=True)
class Previewed(Validated):
    """Weights that are published before the first validation, so that a run which is stopped leaves a model."""

    name: ClassVar[str] = "preview"


@dataclass(frozen=True)
class Replanned(Event):
    """The machine is slower or faster than expected: the number of steps has changed."""

    name: ClassVar[str] = "replan"
    total: int
    before: int  # the number of steps until now
    seconds_left: float


@dataclass(frozen=True)
class Saved(Event):
    name: ClassVar[str] = "checkpoint"
    path: str


@dataclass(frozen=True)
class Noted(Event):
    """Something a person should know."""

    name: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Ended(Event):
    name: ClassVar[str] = "end"
    reason: str  # done, patience, diverged, sigterm, sigint, sigusr1, stopped
    scores: dict[str, float] = field(default_factory=dict)
    exit_code: int = 0
