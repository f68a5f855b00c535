"""Terms that must come out as given."""

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
    """Source terms and the target terms they must become. A term that maps to itself is not translated."""

    terms: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """Rows of source<TAB>target; a row with one column stays as it is. # begins a comment."""
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
        """Longer source terms first."""
        return sorted(self.terms, key=lambda pair: -len(pair[0]))

    @cached_property
    def ranks(self) -> dict[str, list[int]]:
        """Where each source term stands among the ordered ones."""
        found: dict[str, list[int]] = {}
        for rank, (term, _) in enumerate(self.ordered):
            found.setdefault(term, []).append(rank)
        return found

    @cached_property
    def lengths(self) -> set[int]:
        return {len(term) for term, _ in self.terms}

    def wanted(self, source: str) -> list[str]:
        """The target terms this sentence needs: longer source terms first, each place used once."""
        found: list[str] = []
        for term, target in self.within(source):
            source, count = whole(term).subn("\0", source)
            found += [target] * min(count, 1)
        return found

    def within(self, source: str) -> list[tuple[str, str]]:
        """The terms whose letters the sentence holds: looking up its stretches does not ask every term of thousands."""
        stretches = (source[i : i + n] for n in self.lengths for i in range(len(source) - n + 1))
        present = {stretch for stretch in stretches if stretch in self.ranks}
        return [self.ordered[rank] for rank in sorted(rank for term in present for rank in self.ranks[term])]


@lru_cache(maxsize=10_000)  # a server is given ever new terms
def whole(term: str) -> re.Pattern[str]:
    """Finds a term; one that begins in ASCII only where no word goes on around it."""
    return re.compile(rf"(?<!\w){re.escape(term)}(?!\w)" if term[:1].isascii() else re.escape(term))
