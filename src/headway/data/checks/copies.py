"""Checks for text that occurs twice: on both sides, in several pairs, or in the test set."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from headway.data.checks.base import Example, Finding, Sightings, excerpt, percent
from headway.data.checks.blocks import Block, two_files
from headway.data.filters import Seen

MOST_HELD = 1 << 20  # most pairs in memory, which take up to 24 MB
MOSTLY = 0.5  # share of leaked test sentences from which a leak is fatal


class Untranslated:
    """A check for pairs whose sides are equal."""

    def __init__(self, same_file: bool) -> None:
        self.same_file = same_file
        self.lines = 0
        self.seen = Sightings()

    def look(self, block: Block) -> None:
        self.lines += block.paired
        both = zip(block.source.texts, block.target.texts, strict=False)
        self.seen.add_all(block.source, [i for i, (ours, theirs) in enumerate(both) if ours == theirs and ours])

    def findings(self) -> Iterator[Finding]:
        if self.same_file:
            yield Finding("fatal", "both sides are the same file", self.lines, "name the other file")
            return
        share = self.seen.count / max(self.lines, 1)
        severe = "warning" if share > 0.05 else "note"
        title = f"pairs with equal sides ({percent(self.seen.count, self.lines)})"
        advice = "a model learns to copy from them; data.drop_identical = true drops them"
        yield from self.seen.finding(severe, title, advice)


class Duplicates:
    """A check for duplicate pairs. In a large corpus a sample chosen by hash is compared, to bound memory."""

    def __init__(self) -> None:
        self.lines = 0
        self.held = Seen()
        self.one_in = 1
        self.seen = Sightings()

    def look(self, block: Block) -> None:
        self.lines += block.paired
        again = []
        for index in range(block.paired):
            ours, theirs = block.source.raws[index], block.target.raws[index]
            if ours and theirs and len(ours) + len(theirs) > 2:
                key = zlib.crc32(ours) << 32 | zlib.crc32(theirs)
                if key % self.one_in == 0 and self.held.add(key):
                    again.append(index)
        self.seen.add_all(block.source, again)
        if self.held.count > MOST_HELD:
            self._thin_out()

    def _thin_out(self) -> None:
        """Halve the sample, and with it the count so far."""
        self.one_in *= 2
        kept = Seen()
        for key in self.held.slots:
            if key and key % self.one_in == 0:
                kept.add(key)
        self.held = kept
        self.seen.count //= 2

    def findings(self) -> Iterator[Finding]:
        self.seen.count *= self.one_in
        about = "about " * (self.one_in > 1)
        title = f"duplicate pairs ({about}{percent(self.seen.count, self.lines)})"
        severe = "warning" if self.seen.count > 0.2 * self.lines else "note"
        advice = "data.drop_duplicates = true drops them, unless they are repeated on purpose"
        yield from self.seen.finding(severe, title, advice)


class Leaks:
    """A check for test sentences that are also in the training text, which would inflate scores."""

    def __init__(self, name: str, source: Path, target: Path) -> None:
        self.name, self.path = name, source
        self.lines = 0
        self.by_source: dict[str, list[int]] = {}
        self.targets: list[str] = []
        for block in two_files(source, target):
            for ours, theirs in zip(block.source.texts, block.target.texts, strict=False):
                self.by_source.setdefault(plain(ours), []).append(self.lines)
                self.targets.append(plain(theirs))
                self.lines += 1
        self.by_source.pop("", None)
        self.found: dict[int, Example] = {}  # test line -> its place in the training text
        self.whole: set[int] = set()

    def look(self, block: Block) -> None:
        for index in range(block.paired):
            numbers = self.by_source.get(plain(block.source.texts[index]))
            if numbers:
                translation = plain(block.target.texts[index])
                for number in numbers:
                    self.found.setdefault(number, self._example(block, index, number))
                    if self.targets[number] == translation:
                        self.whole.add(number)

    def _example(self, block: Block, index: int, number: int) -> Example:
        return Example(f"{self.path}:{number + 1} = {block.source.where(index)}", excerpt(block.source.texts[index]))

    def findings(self) -> Iterator[Finding]:
        if not self.found:
            return
        share, whole = len(self.found) / self.lines, len(self.whole) / self.lines
        severe = "fatal" if whole > MOSTLY else "warning" if share > 0.01 else "note"
        title = (
            f"{self.name} sentences that are in the training text ({percent(len(self.found), self.lines)}; "
            f"{len(self.whole):,} with the same translation)"
        )
        advice = f"remove them from the training text, or state this with every score on {self.path}"
        examples = tuple(self.found[number] for number in sorted(self.found)[:4])
        yield Finding(severe, title, len(self.found), advice, examples)


def plain(text: str) -> str:
    """Return a sentence without case, punctuation and spacing."""
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()
