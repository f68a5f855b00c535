"""Character-level tokeniser, for transliteration, pronunciation and other tasks on single words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.errors import UsageError
from headway.text.symbols import Spelling, SymbolTokenizer
from headway.text.tags import check_tags
from headway.text.unicode import mend

CHARACTERS = Spelling(".chars.json", list, "".join, str.isspace)


@dataclass(frozen=True)
class Characters:
    """Settings of a character-level tokeniser: every character of the training text is a token."""

    section: ClassVar[bool] = True
    sampling: ClassVar[float] = 0.0

    kind: Literal["characters"] = "characters"  # subword, characters or words
    joint: bool = True  # one vocabulary for source and target

    def learn(self, texts: Iterable[str], tags: tuple[str, ...] = ()) -> SymbolTokenizer:
        """Return a tokeniser of all characters in `texts`, most frequent first, whatever the order of the texts."""
        check_tags(tags)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(mend(text))
        if not counts:
            raise UsageError("no text to learn characters from: every line is empty; check the training files")
        return SymbolTokenizer(CHARACTERS, sorted(counts, key=lambda c: (-counts[c], c)), tags)
