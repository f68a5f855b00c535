"""Read the metrics.jsonl of a training run as curves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import UsageError

FILE = "metrics.jsonl"
STEP_FIELDS = ("loss", "nll", "lr", "tokens_per_second", "grad_norm")
NOT_SCORES = ("step", "time", "epoch")


@dataclass
class Curve:
    """Values of one quantity, each with its step and the minutes of training until then."""

    steps: list[float] = field(default_factory=list)
    minutes: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, step: float, minutes: float, value: float) -> None:
        """Append a point; later points are dropped first, as a resumed run repeats steps since its last checkpoint."""
        while self.steps and self.steps[-1] >= step:
            for column in (self.steps, self.minutes, self.values):
                column.pop()
        self.steps.append(step)
        self.minutes.append(minutes)
        self.values.append(value)

    def thinned(self, most: int) -> Curve:
        """Return a curve of at most `most` points, each the mean of its neighbours."""
        size = math.ceil(len(self.values) / most)
        if size <= 1:
            return self
        return Curve(
            *([_mean(column[i : i + size]) for i in range(0, len(column), size)] for column in self._columns())
        )

    def _columns(self) -> tuple[list[float], list[float], list[float]]:
        return self.steps, self.minutes, self.values


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


@dataclass(frozen=True)
class History:
    """The curves of a run, by quantity: of training steps, and of validations."""

    name: str
    train: dict[str, Curve]
    dev: dict[str, Curve]


def read_history(run: Path) -> History:
    """Return the curves of a run folder or of a metrics.jsonl."""
    path = run if run.is_file() else run / FILE
    history = History(path.parent.resolve().name, {}, {})
    for event, step, minutes in _timed(_events(path)):
        if event["event"] == "step":
            _note(history.train, event, [key for key in STEP_FIELDS if key in event], step, minutes)
        elif event["event"] == "validate":
            _note(history.dev, event, [key for key in event if key not in NOT_SCORES], step, minutes)
    if not history.train and not history.dev:
        raise UsageError(f"{path}: it has no training steps yet; train first, then plot")
    return history


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a file, skipping lines that a crash left incomplete."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror or error}; give the folder of a training run"
        ) from None
    for line in raw.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and _is_number(event.get("step")) and _is_number(event.get("time")):
            yield {"event": "", **event}


def _timed(events: Iterator[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], float, float]]:
    """Yield each event with its step and minutes of training: those of the log, else by the clock without pauses."""
    minutes, before, counted = 0.0, None, False
    for event in events:
        now = float(event["time"])
        if _is_number(event.get("seconds")):
            minutes, counted = float(event["seconds"]) / 60, True
        elif before is not None and not counted and event["event"] != "plan":
            minutes += max(0.0, now - before) / 60
        before = now
        yield event, float(event["step"]), minutes


def _note(curves: dict[str, Curve], event: dict[str, Any], keys: list[str], step: float, minutes: float) -> None:
    for key in keys:
        if _is_number(event[key]):
            curves.setdefault(key, Curve()).add(step, minutes, float(event[key]))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
