"""Glossaries: target terms that translations must use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from headway.data.formats import lines
from headway.errors import UsageError

LONGEST_TERM = 200  # characters


@dataclass(frozen=True)
class Glossary:
    """Source terms and their required translations. A term that maps to itself is not translated."""

    terms: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """Read rows of source<TAB>target; a row with one column is a term to keep. # begins a comment."""
        found: list[tuple[str, str]] = []
        for line in lines(path, "refuse"):
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

    @cached_property
    def ordered(self) -> list[tuple[str, str]]:
        """The terms, longer source terms first."""
        return sorted(self.terms, key=lambda pair: -len(pair[0]))

    @cached_property
    def ranks(self) -> dict[str, list[int]]:
        """The indices of each source term in `ordered`."""
        found: dict[str, list[int]] = {}
        for rank, (term, _) in enumerate(self.ordered):
            found.setdefault(term, []).append(rank)
        return found

    @cached_property
    def lengths(self) -> set[int]:
        return {len(term) for term, _ in self.terms}

    def wanted(self, source: str) -> list[str]:
        """Return the target terms required for a sentence: longer source terms first, each position used once."""
        found: list[str] = []
        for term, target in self.within(source):
            source, count = whole(term).subn("\0", source)
            found += [target] * min(count, 1)
        return found

    def within(self, source: str) -> list[tuple[str, str]]:
        """Return the terms that are substrings of a sentence, by looking up its substrings, not by trying all terms."""
        stretches = (source[i : i + n] for n in self.lengths for i in range(len(source) - n + 1))
        present = {stretch for stretch in stretches if stretch in self.ranks}
        return [self.ordered[rank] for rank in sorted(rank for term in present for rank in self.ranks[term])]


@lru_cache(maxsize=10_000)  # bounded, as clients of a server give ever new terms
def whole(term: str) -> re.Pattern[str]:
    """Return a pattern that finds a term; terms that begin in ASCII match only whole words."""
    return re.compile(rf"(?<!\w){re.escape(term)}(?!\w)" if term[:1].isascii() else re.escape(term))
