"""Read and write sentences with a label for every word: CoNLL and CoNLL-U files."""

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
    """The columns of words and labels, counted from 1, or from the last as -1."""

    word: int = 1
    label: int = -1
    conllu: bool = False  # CoNLL-U: comments, word ranges and empty nodes are skipped
    trim: str = ""  # a regular expression that is removed from each word

    @property
    def needed(self) -> int:
        """The fewest columns a line may have."""
        places = (self.word, self.label)
        return max(2, *(abs(place) for place in places))

    def write(self, words: Sequence[str], labels: Sequence[str]) -> str:
        """Return a sentence in two columns, or in the ten columns of CoNLL-U."""
        if not self.conllu:
            return "".join(f"{word}\t{label}\n" for word, label in zip(words, labels, strict=True))
        rows = ([str(number), word, *"________"] for number, word in enumerate(words, 1))
        return "".join("\t".join(_with(row, self.label, label)) + "\n" for row, label in zip(rows, labels, strict=True))


def _with(row: list[str], column: int, label: str) -> list[str]:
    row[column - 1 if column > 0 else column] = label
    return row


@dataclass(frozen=True)
class Sentence:
    """Words with their labels, and the place of the first word; without labels it is text to be tagged."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    path: str = ""
    line: int = 0

    @property
    def source(self) -> str:
        return " ".join(self.words)


def layout_of(path: Path, word: int | None, label: int | None, trim: str) -> Layout:
    """Return the layout, by the suffix of the file where columns are not given."""
    names = [suffix for suffix in path.suffixes if suffix not in PACKED]
    conllu = names[-1:] == [".conllu"]
    usual = (CONLLU_WORD, CONLLU_LABEL) if conllu else (1, -1)
    return Layout(word or usual[0], label or usual[1], conllu, trim)


def read(path: Path, layout: Layout, invalid: Invalid = "error") -> Iterator[Sentence]:
    """Yield the sentences of a file; UsageError with file and line if a label is missing."""
    found = False
    for sentence in sentences(lines(path, invalid), layout, str(path)):
        found = True
        yield sentence
    if not found:
        raise UsageError(
            f"{path}:1: no sentences; write a word and its label on each line, and an empty line between sentences"
        )


def sentences(given: Iterable[Line], layout: Layout, name: str, labelled: bool = True) -> Iterator[Sentence]:
    """Yield the sentences in lines, which empty lines separate; if not `labelled`, only words are read."""
    block: list[tuple[int, str, str]] = []
    width = Width(layout) if labelled else None
    for number, text, problem in given:
        if text is None:
            raise UsageError(f"{name}:{number}: {problem}; correct the line")
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
    """Checks the number of columns; if columns are counted from the last, all lines must have equally many."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.first = layout, 0

    def check(self, count: int, where: str) -> None:
        columns = f"{count} column{'s' * (count != 1)}"
        if count < self.layout.needed:
            raise UsageError(f"{where}: {columns}, but at least {self.layout.needed} are needed: word and label")
        self.first = self.first or count
        if count != self.first and min(self.layout.word, self.layout.label) < 0:
            raise UsageError(
                f"{where}: {columns}, but {self.first} in the first line; correct it, or set task.label_column, "
                "counted from the left"
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
