"""Running text: files cut into documents, and their lines in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from headway.data.formats import TOO_LONG, Invalid, lines
from headway.errors import UsageError
from headway.text.vocabulary import BOS, EOS, UNK

Unit = Literal["file", "paragraph", "line"]
LONGEST_LINE = 64 << 20  # bytes; a line is held in memory
BLOCK = 4096  # lines encoded together


class Line(NamedTuple):
    """One line of a document, without its end; or a whole document, with the ends inside."""

    text: str
    file: int  # number of its file
    number: int  # in its file, from 1
    begins: bool  # a document begins here


@runtime_checkable
class Encoder(Protocol):
    def encode_many(self, texts: list[str]) -> list[list[int]]: ...


@dataclass(frozen=True)
class Reading:
    """How files are cut into documents, and how the ends of lines are written."""

    document: Unit = "file"
    whole: bool = False  # documents are encoded whole: the ends of lines are part of the text
    invalid: Invalid = "error"

    def lines(self, paths: Sequence[Path]) -> Iterator[Line]:
        """All lines that belong to documents, in the order of the files."""
        for file, path in enumerate(paths):
            begins = True
            for number, text, problem in lines(path, self.invalid, LONGEST_LINE):
                if text is None and problem == TOO_LONG:
                    raise UsageError(f"{path}:{number}: the line is longer than {LONGEST_LINE >> 20} MiB; break it up")
                if text is None:
                    continue
                if self.document != "file" and not text.strip():
                    begins = True  # an empty line belongs to no document
                    continue
                yield Line(text, file, number, begins)
                begins = self.document == "line"

    def joined(self, some: Iterable[Line]) -> Iterator[Line]:
        """As they are encoded: line by line, or whole documents."""
        if not self.whole:
            yield from some
            return
        for _, together in groupby(some, _Count()):
            inside = list(together)
            yield inside[0]._replace(text="\n".join(line.text for line in inside))

    def encoded(self, some: Iterable[Line], pieces: Encoder) -> Iterator[tuple[list[Line], list[list[int]]]]:
        """Blocks of lines and their ids: begin before a document, end after every line (or whole document)."""
        rest = self.joined(some)
        while block := list(islice(rest, 1 if self.whole else BLOCK)):
            ids = pieces.encode_many([line.text for line in block])
            yield block, [[*[BOS] * line.begins, *row, EOS] for line, row in zip(block, ids, strict=True)]

    # ------------------------------------------------------------ held out

    def split(self, paths: Sequence[Path], share: float) -> int:
        """How many lines come before the last `share` of the characters; all, where it cannot be cut.

        Documents stay whole, but for whole files, which are cut between lines.
        """
        total = sum(len(line.text) + 1 for line in self.lines(paths))
        before = cut = count = 0
        for count, line in enumerate(self.lines(paths)):
            if before > (1 - share) * total:
                break
            cut = count if line.begins or self.document == "file" else cut
            before += len(line.text) + 1
        return cut or count + 1

    def first(self, paths: Sequence[Path], count: int) -> Iterator[Line]:
        return islice(self.lines(paths), count)

    def after(self, paths: Sequence[Path], count: int) -> Iterator[Line]:
        """The lines after so many; the first of them begins a document."""
        rest = islice(self.lines(paths), count, None)
        for line in islice(rest, 1):
            yield line._replace(begins=True)
        yield from rest


class _Count:
    """Numbers documents: the key of a line is how many documents have begun."""

    def __init__(self) -> None:
        self.begun = 0

    def __call__(self, line: Line) -> int:
        self.begun += line.begins
        return self.begun


@dataclass
class Amounts:
    """How much text there is. A line's end counts as a character and as a word, as WikiText's <eos> does."""

    documents: int = 0
    lines: int = 0
    words: int = 0  # between spaces, and one for each line's end
    characters: int = 0  # with each line's end
    bytes: int = 0  # of UTF-8, with each line's end
    tokens: int = 0  # that are predicted: pieces and ends
    unknown: int = 0  # tokens that stand for what the vocabulary lacks

    def add(self, block: Iterable[Line], rows: Iterable[list[int]]) -> None:
        for line, row in zip(block, rows, strict=True):
            ends = line.text.count("\n") + 1
            self.documents += line.begins
            self.lines += ends
            self.words += len(line.text.split()) + ends
            self.characters += len(line.text) + 1
            self.bytes += len(line.text.encode("utf-8", "replace")) + 1
            self.tokens += len(row) - line.begins
            self.unknown += row.count(UNK)
