"""Sentences with a label on every word: CoNLL and CoNLL-U files, read and written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.formats import Invalid, Line, lines
from headway.errors import UsageError

PACKED = (".gz", ".xz", ".zst")
DOCUMENT = "-DOCSTART-"
CONLLU_WORD, CONLLU_LABEL = 2, 4  # form and universal part of speech


@dataclass(frozen=True)
class Layout:
    """Where words and labels stand. Columns count from 1, or from the last with a minus."""

    word: int = 1
    label: int = -1
    conllu: bool = False  # comments, word ranges and empty nodes are passed over
    trim: str = ""  # a regular expression: what is cut off each word

    @property
    def needed(self) -> int:
        """The fewest columns a line may have."""
        places = (self.word, self.label)
        return max(2, *(abs(place) for place in places))

    def write(self, words: Sequence[str], labels: Sequence[str]) -> str:
        """A sentence in two columns, or in the ten of CoNLL-U."""
        if not self.conllu:
            return "".join(f"{word}\t{label}\n" for word, label in zip(words, labels, strict=True))
        rows = ([str(number), word, *"________"] for number, word in enumerate(words, 1))
        return "".join("\t".join(_with(row, self.label, label)) + "\n" for row, label in zip(rows, labels, strict=True))


def _with(row: list[str], column: int, label: str) -> list[str]:
    row[column - 1 if column > 0 else column] = label
    return row


@dataclass(frozen=True)
class Sentence:
    """Words, their labels, and where the first of them stands. Without labels: text to be tagged."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    path: str = ""
    line: int = 0

    @property
    def source(self) -> str:
        return " ".join(self.words)


def layout_of(path: Path, word: int | None, label: int | None, trim: str) -> Layout:
    """By the name of the file, where the columns are not given."""
    names = [suffix for suffix in path.suffixes if suffix not in PACKED]
    conllu = names[-1:] == [".conllu"]
    usual = (CONLLU_WORD, CONLLU_LABEL) if conllu else (1, -1)
    return Layout(word or usual[0], label or usual[1], conllu, trim)


def read(path: Path, layout: Layout, invalid: Invalid = "error") -> Iterator[Sentence]:
    """The sentences of a file; a line without a label is an error that names it."""
    found = False
    for sentence in sentences(lines(path, invalid), layout, str(path)):
        found = True
        yield sentence
    if not found:
        raise UsageError(f"{path}:1: no sentence: a word and its label on every line, and an empty line between")


def sentences(given: Iterable[Line], layout: Layout, name: str, labelled: bool = True) -> Iterator[Sentence]:
    """Blocks of lines between empty ones. Not `labelled`: only words are read."""
    block: list[tuple[int, str, str]] = []
    width = Width(layout) if labelled else None
    for number, text, problem in given:
        if text is None:
            raise UsageError(f"{name}:{number}: {problem}; mend the line")
        if not text.strip(" \t"):
            yield from _sentence(block, name, labelled)
            block = []
        elif not _is_remark(text, layout):
            cells = _split(text)
            if width is not None:
                width.check(len(cells), f"{name}:{number}")
            block.append((number, *_cells(cells, layout, f"{name}:{number}", labelled)))
    yield from _sentence(block, name, labelled)


def _sentence(block: Sequence[tuple[int, str, str]], name: str, labelled: bool) -> Iterator[Sentence]:
    if block:
        _, words, labels = zip(*block, strict=True)
        yield Sentence(words, labels if labelled else (), name, block[0][0])


def _is_remark(text: str, layout: Layout) -> bool:
    if not layout.conllu:
        return text.split(maxsplit=1)[0] == DOCUMENT
    return text.startswith("#") or bool(re.match(r"\d+[-.]\d+\t", text))


class Width:
    """How many columns lines have. Where a place is counted from the last one, all must have as many as the first."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.first = layout, 0

    def check(self, count: int, where: str) -> None:
        columns = f"{count} column{'s' * (count != 1)}"
        if count < self.layout.needed:
            raise UsageError(f"{where}: {columns}, at least {self.layout.needed} are wanted: a word and its label")
        self.first = self.first or count
        if count != self.first and min(self.layout.word, self.layout.label) < 0:
            raise UsageError(
                f"{where}: {columns}, but {self.first} in the first line; mend it, or say where labels stand, counted "
                "from the left: task.label_column"
            )


def _split(text: str) -> list[str]:
    return text.split("\t") if "\t" in text else re.split(" +", text.strip(" "))


def _cells(cells: Sequence[str], layout: Layout, where: str, labelled: bool) -> tuple[str, str]:
    word = _pick(cells, layout.word if labelled or len(cells) >= abs(layout.word) else 1)
    if layout.trim:
        word = re.sub(layout.trim, "", word) or word
    label = _pick(cells, layout.label) if labelled else ""
    if labelled and (not label or (label == "_" and layout.conllu and layout.label == CONLLU_LABEL)):
        raise UsageError(f"{where}: the label of {word[:40]!r} is empty")
    return word, label


def _pick(cells: Sequence[str], column: int) -> str:
    return cells[column - 1] if column > 0 else cells[column]
