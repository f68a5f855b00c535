"""Read a corpus in blocks of a few thousand lines, with vectorised statistics that the checks share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import Int, UInt8, UInt64

from headway.data.checks.kinds import KIND, KINDS, SCRIPTS, kind_table
from headway.data.corpus import reader_of
from headway.data.formats import HAS_NUL, NOT_UTF8, TOO_LONG, Names, open_bytes, raw_lines

MOST_LINES = 4096
MOST_BYTES = 2 << 20
STEP = 256  # lines read at once


@dataclass(frozen=True)
class Words:
    """The words of a block: the line of each, and a hash of its letters."""

    lines: Int[np.ndarray, " w"]
    numbers: UInt64[np.ndarray, " w"]


class Side:
    """Some lines of one side of a corpus."""

    def __init__(self, path: Path, name: str, numbers: Sequence[int], raws: list[bytes | None]) -> None:
        self.path, self.name = path, name
        self.numbers = numbers  # line numbers in the file, from 1
        self.raws = raws
        self.faults: dict[int, str] = {}  # index of a line -> why it is unreadable
        self.crlf = 0
        self.texts = self._decode([b"\n" if raw is None else raw for raw in raws])
        if None in raws:
            self.faults |= {index: TOO_LONG for index, raw in enumerate(raws) if raw is None}

    def _decode(self, raws: list[bytes]) -> list[str]:
        joined = b"".join(raws)
        try:
            text = joined.decode("utf-8")
        except UnicodeDecodeError:
            text = "".join(self._mend(index, raw) for index, raw in enumerate(raws))
        if "\0" in text:
            self.faults |= {index: HAS_NUL for index, raw in enumerate(raws) if b"\0" in raw}
        if "\r\n" in text:
            self.crlf = text.count("\r\n")
            text = text.replace("\r\n", "\n")
        return text.removesuffix("\n").split("\n") if raws else []

    def _mend(self, index: int, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.faults[index] = NOT_UTF8
            return raw.decode("utf-8", "replace")

    def __len__(self) -> int:
        return len(self.texts)

    def where(self, index: int) -> str:
        return f"{self.path}:{self.numbers[index]}"

    @cached_property
    def joined(self) -> str:
        """All lines, each followed by a line end."""
        return "\n".join([*self.texts, ""])

    @cached_property
    def codes(self) -> Int[np.ndarray, " c"]:
        """The code point of every character, including line ends."""
        return np.frombuffer(self.joined.encode("utf-32-le"), np.uint32).astype(np.int64)

    @cached_property
    def lengths(self) -> Int[np.ndarray, " n"]:
        return np.diff(np.flatnonzero(self.codes == ord("\n")), prepend=-1) - 1

    @cached_property
    def line_of_code(self) -> Int[np.ndarray, " c"]:
        return np.repeat(np.arange(len(self)), self.lengths + 1)

    @cached_property
    def kind_of_code(self) -> UInt8[np.ndarray, " c"]:
        return kind_table()[self.codes]

    @cached_property
    def kinds(self) -> Int[np.ndarray, "n kinds"]:
        """The number of characters of each kind in every line."""
        cells = self.line_of_code * len(KINDS) + self.kind_of_code
        return np.bincount(cells, minlength=len(self) * len(KINDS)).reshape(len(self), len(KINDS))

    @cached_property
    def words(self) -> Words:
        """Runs of letters and digits; in scripts without spaces, every character is a word."""
        form = WORD_FORM[self.kind_of_code]
        inside = form == 1
        begins = (form == 2) | (inside & ~np.concatenate(([False], inside[:-1])))
        ends = (form == 2) | (inside & ~np.concatenate((inside[1:], [False])))
        sums = np.concatenate(([0], np.cumsum(LETTER_NUMBERS[self.codes & 0xFFFF]))).astype(np.uint64)
        starts = np.flatnonzero(begins)
        return Words(self.line_of_code[starts], sums[np.flatnonzero(ends) + 1] - sums[starts])


WORD_FORM = np.zeros(len(KINDS), np.uint8)
WORD_FORM[[KIND[script] for script in SCRIPTS]] = 1
WORD_FORM[KIND["digit"]] = 1
WORD_FORM[[KIND["CJK"], KIND["KANA"], KIND["THAI"]]] = 2
# The hash of a word is the sum of its letters' hashes modulo 2^64, so anagrams such as "no" and "on" collide: harmless.
LETTER_NUMBERS = np.random.default_rng(0).integers(1, 1 << 63, 0x10000, dtype=np.uint64)


@dataclass(frozen=True)
class Block:
    """The same lines of both sides; one side is shorter at the end of files of different length."""

    source: Side
    target: Side

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.source, self.target

    @property
    def paired(self) -> int:
        return min(len(self.source), len(self.target))


Blocks = Callable[[], Iterator[Block]]  # each call reads the corpus once


def two_files(source: Path, target: Path) -> Iterator[Block]:
    """Yield blocks of two files in parallel, to the end of the longer one."""
    with open_bytes(source) as ours, open_bytes(target) as theirs:
        rows = zip_longest(raw_lines(source, ours), raw_lines(target, theirs), fillvalue=b"")
        first = 1
        for portion in _portions(rows, lambda row: len(row[0] or b"") + len(row[1] or b"")):
            # A line has at least its line end, so an empty one means that the file has ended.
            left, right = ([raw for raw in side if raw != b""] for side in zip(*portion, strict=True))
            numbers = range(first, first + len(portion))
            yield Block(Side(source, str(source), numbers, left), Side(target, str(target), numbers, right))
            first += len(portion)


def one_file(path: Path, names: Names) -> Iterator[Block]:
    """Yield blocks of a file with both sides."""
    rows = reader_of(path.name)(path, "skip", names)
    for portion in _portions(rows, lambda row: len(row.source or "") + len(row.target or "")):
        numbers = [row.line for row in portion]
        source = Side(path, f"{path} (source)", numbers, [_raw(row.source) for row in portion])
        target = Side(path, f"{path} (target)", numbers, [_raw(row.target) for row in portion])
        source.faults |= {index: row.problem for index, row in enumerate(portion) if row.problem}
        yield Block(source, target)


def _raw(text: str | None) -> bytes:
    return ((text or "") + "\n").encode()


Item = TypeVar("Item")


def _portions(rows: Iterator[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield lists of rows of at most about MOST_LINES lines and MOST_BYTES bytes."""
    portion: list[Item] = []
    held = 0
    while some := list(islice(rows, STEP)):
        portion += some
        held += sum(map(size, some))
        if len(portion) >= MOST_LINES or held >= MOST_BYTES:
            yield portion
            portion, held = [], 0
    if portion:
        yield portion
