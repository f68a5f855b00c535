"""Checks of characters: unreadable lines, invisible characters, lines in another script, rare characters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from shlex import join, quote

import numpy as np

from headway.data.checks.base import Example, Finding, Severity, Sightings, percent
from headway.data.checks.blocks import Block
from headway.data.checks.kinds import KIND, SCRIPTS, kind_table
from headway.data.checks.languages import named
from headway.data.formats import BOM, HAS_NUL, NOT_UTF8, TOO_LONG, Invalid, open_bytes

LATIN_2 = ("cs", "hr", "hu", "pl", "ro", "sk", "sl")  # languages that old files write in ISO 8859-2
COVERAGE = 0.9995  # share of characters that a subword vocabulary covers if there are many distinct ones
MANY = 1500  # distinct characters; a vocabulary covers all of fewer
MOST_OF = 0.8  # share of a line's letters that must be of one script
FEWEST_LETTERS = 4  # lines with fewer letters have no script
OWN_SHARE = 0.05  # a script of at least this share of lines belongs to the language

SCRIPT_NAMES = {script: script.title() for script in SCRIPTS} | {"CJK": "Chinese", "OTHER": "other"}

Advice = tuple[Severity, str, str]
ODD_ADVICE: dict[str, Advice] = {
    "carriage return": (
        "warning",
        "carriage returns inside lines",
        "replace them by spaces, or by line ends in both files",
    ),
    "line separator": (
        "warning",
        "characters that other programs treat as line ends (U+2028, U+0085 and others)",
        "replace them by spaces: another program may count more lines than this one",
    ),
    "control": ("warning", "control characters", "remove them; they are remains of another format"),
    "replacement": (
        "warning",
        "damaged characters (U+FFFD)",
        "export the text again from its origin, in the right encoding",
    ),
    "private use": ("warning", "private-use characters", "remove them; they have a meaning in one font only"),
    "zero-width": ("note", "zero-width characters and soft hyphens", "harmless in Persian or Hindi, noise elsewhere"),
    "direction mark": ("note", "direction marks", "harmless in Arabic or Hebrew, noise elsewhere"),
}


class Unreadable:
    """A check for bytes that are not UTF-8, NUL characters, overlong lines, Windows line ends and byte order marks."""

    def __init__(self, paths: Iterable[Path], invalid: Invalid) -> None:
        self.paths = tuple(paths)
        self.severity: Severity = "fatal" if invalid == "error" else "warning"
        self.seen: defaultdict[tuple[str, Path], Sightings] = defaultdict(Sightings)
        self.crlf = Counter[Path]()

    def look(self, block: Block) -> None:
        for side in block.sides:
            self.crlf[side.path] += side.crlf
            for index, reason in side.faults.items():
                self.seen[reason, side.path].add(side, index)

    def findings(self) -> Iterator[Finding]:
        for (reason, path), sightings in self.seen.items():
            if reason == TOO_LONG:
                yield from sightings.finding("note", f"lines {reason}", "they are left out of training")
            else:
                advice = f'{mend(reason, path)}, or set data.invalid = "skip" to leave them out'
                yield from sightings.finding(self.severity, f"unreadable: {reason} in {path}", advice)
        for path in self.paths:
            if self.crlf[path]:
                advice = "nothing to do: the carriage return is removed"
                yield Finding("note", f"{path} has Windows line ends", self.crlf[path], advice)
            if _has_bom(path):
                yield Finding("note", f"{path} begins with a byte order mark", 1, "nothing to do: it is removed")


def mend(reason: str, path: Path) -> str:
    """Say how to repair a file: for another encoding, by the command that converts it."""
    encodings = {NOT_UTF8: "ISO-8859-2" if named(path) in LATIN_2 else "ISO-8859-1", HAS_NUL: "UTF-16"}
    if reason not in encodings:
        return "mend them"
    new = path.with_name(f"utf8.{path.name}")
    if path.suffix in (".gz", ".xz", ".zst"):
        return f"unpack the file and convert it: iconv -f {encodings[reason]} -t UTF-8"
    return f"convert the file: {join(['iconv', '-f', encodings[reason], '-t', 'UTF-8', str(path)])} > {quote(str(new))}"


def _has_bom(path: Path) -> bool:
    with open_bytes(path) as stream:
        return stream.read(len(BOM)) == BOM


def first_of_kind(text: str, kind: int) -> int:
    return next(index for index, character in enumerate(text) if kind_table()[ord(character)] == kind)


class OddCharacters:
    """A check for invisible characters, which a model would learn."""

    def __init__(self) -> None:
        self.seen = {name: Sightings() for name in ODD_ADVICE}

    def look(self, block: Block) -> None:
        for side in block.sides:
            present = side.kinds.sum(axis=0)
            for name, sightings in self.seen.items():
                if present[KIND[name]]:
                    rows = np.flatnonzero(side.kinds[:, KIND[name]])
                    sightings.add_all(side, rows, partial(first_of_kind, kind=KIND[name]))

    def findings(self) -> Iterator[Finding]:
        for name, sightings in self.seen.items():
            yield from sightings.finding(*ODD_ADVICE[name])


class Scripts:
    """A check for lines in another script than the rest of their side."""

    def __init__(self) -> None:
        self.led: defaultdict[tuple[str, str], Sightings] = defaultdict(Sightings)

    def look(self, block: Block) -> None:
        first, last = KIND[SCRIPTS[0]], KIND[SCRIPTS[-1]]
        for side in block.sides:
            letters = side.kinds[:, first : last + 1]
            total = letters.sum(axis=1)
            clear = (total >= FEWEST_LETTERS) & (letters.max(axis=1) > MOST_OF * total)
            leading = np.where(clear, letters.argmax(axis=1), -1)
            for script in np.unique(leading[leading >= 0]):
                self.led[side.name, SCRIPTS[script]].add_all(side, np.flatnonzero(leading == script))

    def findings(self) -> Iterator[Finding]:
        for name in dict.fromkeys(name for name, _ in self.led):
            own = {script: seen for (side, script), seen in self.led.items() if side == name}
            total = sum(seen.count for seen in own.values())
            main = max(own, key=lambda script: own[script].count)
            for script, seen in own.items():
                if seen.count < OWN_SHARE * total and not {script, main} <= {"CJK", "KANA"}:
                    title = (
                        f"{name}: lines in {SCRIPT_NAMES[script]} letters, while the others are {SCRIPT_NAMES[main]}"
                    )
                    severe = "warning" if seen.count > 0.001 * total else "note"
                    yield from seen.finding(severe, title, "read some of them: are they in the right language?")


class RareCharacters:
    """A check for characters that are too rare for the vocabulary."""

    def __init__(self) -> None:
        self.counts: dict[str, np.ndarray] = {}

    def look(self, block: Block) -> None:
        for side in block.sides:
            held = self.counts.setdefault(side.name, np.zeros(0x110000, np.int64))
            held[:] += np.bincount(side.codes, minlength=len(held))

    def findings(self) -> Iterator[Finding]:
        for name, counts in self.counts.items():
            codes = np.flatnonzero(counts)
            codes = codes[np.argsort(-counts[codes], kind="stable")]
            covered = np.cumsum(counts[codes]) - counts[codes] < COVERAGE * counts.sum()
            rare = codes[~covered]
            if len(rare) and len(codes) > MANY:  # all characters of a small alphabet are in the vocabulary
                share = percent(len(rare), len(codes))
                title = f"{name}: characters so rare that a vocabulary may lack them ({share} of all distinct ones)"
                examples = tuple(Example(f"U+{code:04X}", chr(code)) for code in rare[:4] if chr(code).isprintable())
                advice = "nothing to do if they are foreign: they are encoded as bytes; otherwise set text.coverage = 1"
                yield Finding("note", title, len(rare), advice, examples)
