"""Counts of the pairs that were read, kept and dropped, with reasons."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

EXAMPLES = 5  # most examples for each reason


@dataclass
class Counts:
    """Counts that are updated while a corpus is read."""

    read: int = 0  # pairs in the files
    kept: int = 0  # pairs used
    held_out: int = 0  # pairs used for validation
    repaired: int = 0  # kept pairs with characters replaced by U+FFFD
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> number of pairs
    examples: dict[str, list[str]] = field(default_factory=dict)  # reason -> the first pairs, as file:line

    def drop(self, reason: str, where: str, line: int) -> None:
        number = self.dropped[reason] = self.dropped.get(reason, 0) + 1
        if number <= EXAMPLES:
            self.examples.setdefault(reason, []).append(f"{where}:{line}")

    def summary(self) -> str:
        """Return one line, such as "29,000 pairs read, 28,999 kept, 1 dropped: 1 duplicate (a.en:12)"."""
        parts = [f"{self.read:,} pairs read", f"{self.kept:,} kept"]
        if self.held_out:
            parts.append(f"{self.held_out:,} held out for validation")
        if self.repaired:
            parts.append(f"{self.repaired:,} repaired")
        total = sum(self.dropped.values())
        parts.append(f"{total:,} dropped" + ": " * bool(total) + ", ".join(map(self._reason, self._reasons())))
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def _reasons(self) -> list[str]:
        return sorted(self.dropped, key=lambda reason: -self.dropped[reason])

    def _reason(self, reason: str) -> str:
        number, places = self.dropped[reason], self.examples[reason]
        more = ", ..." if number > len(places) else ""
        return f"{number:,} {reason} ({', '.join(places)}{more})"
