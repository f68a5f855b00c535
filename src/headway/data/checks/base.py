"""The seam of all checks: look at the corpus block by block, then say what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from headway.data.checks.blocks import Block, Side

Severity = Literal["note", "warning", "fatal"]
MOST_EXAMPLES = 4
EXCERPT = 60  # characters


class Example(NamedTuple):
    """Where to look, and the beginning of what stands there."""

    where: str
    text: str


@dataclass(frozen=True)
class Finding:
    """One thing a person should know about a corpus."""

    severity: Severity
    title: str
    count: int
    advice: str
    examples: tuple[Example, ...] = ()


@runtime_checkable
class Check(Protocol):
    """One kind of trouble. It sees every line once and remembers little."""

    def look(self, block: Block) -> None: ...

    def findings(self) -> Iterator[Finding]: ...


Find = Callable[[str], int]  # the position in a line that an excerpt should show


def at_start(_: str) -> int:
    return 0


class Sightings:
    """Counts lines, and keeps the first few as examples."""

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[Example] = []

    def add(self, side: Side, index: int) -> None:
        self.add_all(side, [index])

    def add_all(self, side: Side, rows: Sequence[int] | Int[np.ndarray, " n"], find: Find = at_start) -> None:
        self.count += len(rows)
        for index in rows[: MOST_EXAMPLES - len(self.examples)]:
            text = side.texts[index]
            self.examples.append(Example(side.where(int(index)), excerpt(text, find(text))))

    def finding(self, severity: Severity, title: str, advice: str) -> Iterator[Finding]:
        """One finding, or none when nothing was seen."""
        if self.count:
            yield Finding(severity, title, self.count, advice, tuple(self.examples))


def excerpt(text: str, position: int = 0) -> str:
    """Part of a line around a position, safe to show on a terminal: what cannot be printed is spelled out."""
    start = max(0, min(position - EXCERPT // 2, len(text) - EXCERPT))
    part = text[start : start + EXCERPT]
    shown = "".join(c if c.isprintable() or c == "\u00a0" else f"\\u{ord(c):04x}" for c in part)
    return "…" * (start > 0) + shown + "…" * (start + EXCERPT < len(text))


def percent(part: int, whole: int) -> str:
    share = 100 * part / max(whole, 1)
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"
