"""The result of evaluating a model of any task: scores and tables of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headway.metrics.score import Scores


@dataclass(frozen=True)
class Tally:
    """A table of numbers that complements the scores, for example by label or by length."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    digits: int = 2  # digits after the decimal point


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on some files."""

    count: int  # number of examples
    scores: Scores
    tables: tuple[Tally, ...] = ()
    notes: tuple[str, ...] = ()  # warnings about the files
    confusion: Tally | None = None  # confusion matrix, with a row for each correct label

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        tables = (*self.tables, *([self.confusion] if self.confusion else []))
        listed = {table.title: [dict(zip(table.head, row, strict=True)) for row in table.rows] for table in tables}
        return {"count": self.count, "scores": self.scores.to_dict(), "tables": listed, "notes": list(self.notes)}
