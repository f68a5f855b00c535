"""Running text for language models: files divided into documents, and their lines in order."""

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
LONGEST_LINE = 64 << 20  # bytes; a line is kept in memory
BLOCK = 4096  # lines encoded together


class Line(NamedTuple):
    """One line of a document without its line end; or a whole document, with line ends inside."""

    text: str
    file: int  # index of its file
    number: int  # line number in the file, from 1
    begins: bool  # whether a document begins here


@runtime_checkable
class Encoder(Protocol):
    def encode_many(self, texts: list[str]) -> list[list[int]]: ...


@dataclass(frozen=True)
class Reading:
    """How files are divided into documents and encoded."""

    document: Unit = "file"
    whole: bool = False  # whether documents are encoded whole, with line ends as text
    invalid: Invalid = "error"

    def lines(self, paths: Sequence[Path]) -> Iterator[Line]:
        """Yield all lines of documents in the order of the files."""
        for file, path in enumerate(paths):
            begins = True
            for number, text, problem in lines(path, self.invalid, LONGEST_LINE):
                if text is None and problem == TOO_LONG:
                    raise UsageError(f"{path}:{number}: the line is longer than {LONGEST_LINE >> 20} MiB; break it up")
                if text is None:
                    continue
                if self.document != "file" and not text.strip():
                    begins = True  # empty lines separate documents
                    continue
                yield Line(text, file, number, begins)
                begins = self.document == "line"

    def joined(self, some: Iterable[Line]) -> Iterator[Line]:
        """Yield the units that are encoded: lines, or whole documents."""
        if not self.whole:
            yield from some
            return
        for _, together in groupby(some, _Count()):
            inside = list(together)
            yield inside[0]._replace(text="\n".join(line.text for line in inside))

    def encoded(self, some: Iterable[Line], pieces: Encoder) -> Iterator[tuple[list[Line], list[list[int]]]]:
        """Yield blocks of lines with their ids: BOS before each document, EOS after each line or whole document."""
        rest = self.joined(some)
        while block := list(islice(rest, 1 if self.whole else BLOCK)):
            ids = pieces.encode_many([line.text for line in block])
            yield block, [[*[BOS] * line.begins, *row, EOS] for line, row in zip(block, ids, strict=True)]

    # ------------------------------------------------------------ held out

    def split(self, paths: Sequence[Path], share: float) -> int:
        """Return the number of lines before the last `share` of the characters, or all lines if there is no boundary.

        Documents are not divided, except if they are whole files: those are divided between lines.
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
        """Yield the lines after the first `count`; the first of them begins a document."""
        rest = islice(self.lines(paths), count, None)
        for line in islice(rest, 1):
            yield line._replace(begins=True)
        yield from rest


class _Count:
    """A grouping key: the number of documents that have begun up to a line."""

    def __init__(self) -> None:
        self.begun = 0

    def __call__(self, line: Line) -> int:
        self.begun += line.begins
        return self.begun


@dataclass
class Amounts:
    """The size of a text. A line end counts as one character and one word, like <eos> in WikiText."""

    documents: int = 0
    lines: int = 0
    words: int = 0  # separated by spaces, plus one for each line end
    characters: int = 0  # including line ends
    bytes: int = 0  # in UTF-8, including line ends
    tokens: int = 0  # predicted tokens, including EOS
    unknown: int = 0  # tokens that are <unk>

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
