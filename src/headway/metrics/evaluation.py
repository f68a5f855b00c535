"""How good a model of any task is on some files: scores, and tables of numbers beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headway.metrics.score import Scores


@dataclass(frozen=True)
class Tally:
    """A table of numbers beside the scores: by label, by length."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    digits: int = 2  # shown after the point


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on some files."""

    count: int  # examples that were measured
    scores: Scores
    tables: tuple[Tally, ...] = ()
    notes: tuple[str, ...] = ()  # what was odd about the files
    confusion: Tally | None = None  # what was taken for what: a row for each label that is right, for a picture

    def to_dict(self) -> dict[str, Any]:
        tables = (*self.tables, *([self.confusion] if self.confusion else []))
        listed = {table.title: [dict(zip(table.head, row, strict=True)) for row in table.rows] for table in tables}
        return {"count": self.count, "scores": self.scores.to_dict(), "tables": listed, "notes": list(self.notes)}
