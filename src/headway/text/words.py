"""One symbol for each word between spaces: for tags, phonemes and text that is already cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.errors import UsageError
from headway.text.symbols import Spelling, SymbolTokenizer
from headway.text.tags import check_tags
from headway.text.unicode import mend

WORDS = Spelling(".words.json", str.split, " ".join, bool)
MOST_COUNTED = 4_000_000  # different words counted at a time; the rarest are forgotten beyond


@dataclass(frozen=True)
class Words:
    """The most frequent words are symbols, all others unknown; decoding joins them by one space."""

    section: ClassVar[bool] = True
    sampling: ClassVar[float] = 0.0

    kind: Literal["words"] = "words"  # subword, characters or words
    size: int = 50_000  # maximum vocabulary size
    joint: bool = True  # one vocabulary for source and target

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 1_000_000:
            raise ValueError(f"size = {self.size}: a vocabulary has 1 to 1,000,000 words")

    def learn(self, texts: Iterable[str], tags: tuple[str, ...] = ()) -> SymbolTokenizer:
        """The most frequent first, so that the order does not depend on the order of the texts."""
        check_tags(tags)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(mend(text).split())
            if len(counts) > MOST_COUNTED:
                counts = _forget(counts)
        if not counts:
            raise UsageError("no text to learn words from: every line is empty; check the training files")
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        return SymbolTokenizer(WORDS, ordered[: self.size], tags)


def _forget(counts: Counter[str]) -> Counter[str]:
    """Keep the more frequent half."""
    return Counter(dict(counts.most_common(MOST_COUNTED // 2)))
