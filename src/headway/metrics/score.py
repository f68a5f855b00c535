"""The value of a metric with its confidence interval and signature."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Score:
    """A value, the ends of its 95 % bootstrap interval (None: not computed), and the metric's signature."""

    value: float
    low: float | None = None
    high: float | None = None
    signature: str = ""
    higher_is_better: bool = True

    @property
    def interval(self) -> str:
        """The interval as text, for example "30.12 – 32.40", or "" if there is none."""
        return "" if self.low is None or self.high is None else f"{self.low:.2f} – {self.high:.2f}"


@dataclass(frozen=True)
class Scores(Mapping[str, Score]):
    """Scores by the name of the metric, in the order of the request."""

    by_name: dict[str, Score] = field(default_factory=dict[str, Score])

    def __getitem__(self, name: str) -> Score:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return values for JSON, by the name of the metric."""
        return {name: asdict(score) for name, score in self.by_name.items()}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def values_by_name(self) -> dict[str, float]:
        """Return the value of each metric without interval and signature."""
        return {name: score.value for name, score in self.by_name.items()}
