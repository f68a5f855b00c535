"""Terms that must come out as given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats import lines
from headway.errors import UsageError

LONGEST_TERM = 200  # characters


@dataclass(frozen=True)
class Glossary:
    """Source terms and the target terms they must become. A term that maps to itself is not translated."""

    terms: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """Rows of source<TAB>target; a row with one column stays as it is. # begins a comment."""
        found: list[tuple[str, str]] = []
        for line in lines(path, "error"):
            text = line.text or ""
            if not text.strip() or text.startswith("#"):
                continue
            columns = [column.strip() for column in text.split("\t")]
            if len(columns) > 2 or not all(columns) or max(map(len, columns)) > LONGEST_TERM:
                raise UsageError(
                    f"{path}:{line.number}: a glossary row is source<TAB>target, or one term to keep, "
                    f"each of 1 to {LONGEST_TERM} characters"
                )
            found.append((columns[0], columns[-1]))
        return cls(tuple(found))

    def wanted(self, source: str) -> list[str]:
        """The target terms this sentence needs: longer source terms first, each place used once."""
        found: list[str] = []
        for term, target in sorted(self.terms, key=lambda pair: -len(pair[0])):
            pattern = re.compile(rf"(?<!\w){re.escape(term)}(?!\w)" if term[:1].isascii() else re.escape(term))
            source, count = pattern.subn("\0", source)
            found += [target] * min(count, 1)
        return found
