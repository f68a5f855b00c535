"""Checks for traces of other programs: escaped characters, wrong encodings, text that is tokenised already."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from headway.data.checks.base import Finding, Severity, Sightings, percent
from headway.data.checks.blocks import Block
from headway.data.checks.kinds import KIND, SCRIPTS


class Trace:
    """A check for a pattern. Texts without any of the `hints`, which are fast to find, are not searched."""

    def __init__(self, severity: Severity, title: str, advice: str, hints: str, pattern: str) -> None:
        self.severity: Severity = severity
        self.title, self.advice = title, advice
        self.hints, self.pattern = hints.split(), re.compile(pattern)
        self.seen = Sightings()

    def look(self, block: Block) -> None:
        for side in block.sides:
            hints = [hint for hint in self.hints if hint in side.joined]
            if hints:
                rows = [i for i, text in enumerate(side.texts) if self.pattern.search(text)]
                self.seen.add_all(side, rows, self._find)

    def _find(self, text: str) -> int:
        match = self.pattern.search(text)
        return match.start() if match else 0

    def findings(self) -> Iterator[Finding]:
        yield from self.seen.finding(self.severity, self.title, self.advice)


def traces() -> list[Trace]:
    return [
        Trace(
            "warning",
            "text that was decoded wrongly (Ã¤ for ä)",
            "export the text again from its origin, in the right encoding",
            "Ã Â â€",
            "Ã[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|Â[\xa0-\xbf]|â€",
        ),
        Trace(
            "warning",
            "escaped characters such as &amp; and &apos;",
            "unescape them, or the model will write them",
            "&",
            r"&(?:amp|apos|quot|lt|gt|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,5});",
        ),
        Trace(
            "warning",
            "text that is already split into subwords (@@, ▁)",
            "give the original text; headway splits it itself",
            "@@ ▁",
            r"\S@@(?: |$)|▁\w",
        ),
    ]


LETTERS = [KIND[script] for script in SCRIPTS]
CASED = [KIND[script] for script in ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN")]


class Style:
    """A check for text prepared for another program: all lower case, or with spaces before full stops."""

    def __init__(self) -> None:
        self.lines = Counter[str]()
        self.spaced = Counter[str]()
        self.cased = Counter[str]()
        self.letters = Counter[str]()
        self.capitals = defaultdict[str, bool](bool)

    def look(self, block: Block) -> None:
        for side in block.sides:
            self.lines[side.name] += len(side)
            self.spaced[side.name] += len(re.findall(r" [.。!?]\n", side.joined))
            self.letters[side.name] += int(side.kinds[:, LETTERS].sum())
            self.cased[side.name] += int(side.kinds[:, CASED].sum())
            self.capitals[side.name] |= side.joined.lower() != side.joined

    def findings(self) -> Iterator[Finding]:
        for name, lines in self.lines.items():
            if self.spaced[name] > 0.5 * lines:
                share = percent(self.spaced[name], lines)
                title = f"{name}: spaces before full stops ({share}): it looks tokenised"
                advice = "nothing to do if the text to translate will look the same; otherwise give the original text"
                yield Finding("note", title, self.spaced[name], advice)
            if self.cased[name] > 0.5 * self.letters[name] and not self.capitals[name]:
                advice = "nothing to do if the text to translate has none either"
                yield Finding("note", f"{name}: no capital letters", lines, advice)
