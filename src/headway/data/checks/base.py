"""The seam of all checks: look at the corpus block by block, then say what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from headway.data.checks.blocks import Block

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


class Check(Protocol):
    """One kind of trouble. It sees every line once and remembers little."""

    def look(self, block: Block) -> None: ...

    def findings(self) -> Iterator[Finding]: ...


class Sightings:
    """Counts lines, and keeps the first few as examples."""

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[Example] = []

    def add(self, where: str, text: str) -> None:
        self.count += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(Example(where, excerpt(text)))

    def finding(self, severity: Severity, title: str, advice: str) -> Iterator[Finding]:
        """One finding, or none when nothing was seen."""
        if self.count:
            yield Finding(severity, title, self.count, advice, tuple(self.examples))


def excerpt(text: str) -> str:
    """The beginning of a line, safe to show on a terminal: what cannot be printed is spelled out."""
    start = text[:EXCERPT]
    shown = "".join(c if c.isprintable() or c == "\u00a0" else f"\\u{ord(c):04x}" for c in start)
    return shown + "…" * (len(text) > EXCERPT)


def percent(part: int, whole: int) -> str:
    share = 100 * part / max(whole, 1)
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"
