"""The interface of all checks: `look` at the corpus block by block, then return `findings`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from headway.data.checks.blocks import Block, Side

Severity = Literal["note", "warning", "fatal"]
MOST_EXAMPLES = 4
EXCERPT = 60  # most characters of an excerpt


class Example(NamedTuple):
    """A place as file:line, and an excerpt of its text."""

    where: str
    text: str


@dataclass(frozen=True)
class Finding:
    """A fault of a corpus: severity, title, number of lines, advice and examples."""

    severity: Severity
    title: str
    count: int
    advice: str
    examples: tuple[Example, ...] = ()


@runtime_checkable
class Check(Protocol):
    """A check for one kind of fault. It reads every line once, in bounded memory."""

    def look(self, block: Block) -> None: ...

    def findings(self) -> Iterator[Finding]: ...


Find = Callable[[str], int]  # the position in a line that an excerpt should show


def at_start(_: str) -> int:
    return 0


class Sightings:
    """A count of lines with the first few as examples."""

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
        """Yield one finding, or none if the count is zero."""
        if self.count:
            yield Finding(severity, title, self.count, advice, tuple(self.examples))


def excerpt(text: str, position: int = 0) -> str:
    """Return a part of a line around a position, with unprintable characters escaped for the terminal."""
    start = max(0, min(position - EXCERPT // 2, len(text) - EXCERPT))
    part = text[start : start + EXCERPT]
    shown = "".join(c if c.isprintable() or c == "\u00a0" else f"\\u{ord(c):04x}" for c in part)
    return "…" * (start > 0) + shown + "…" * (start + EXCERPT < len(text))


def percent(part: int, whole: int) -> str:
    """Format a share as "12 %", or with two digits below 10 %."""
    share = 100 * part / max(whole, 1)
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"
