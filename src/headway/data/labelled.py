"""Texts with labels: TSV, JSON lines, or a line that begins with its label."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.data.formats import Invalid, lines, one_line
from headway.errors import UsageError

PACKED = (".gz", ".xz", ".zst")
LONGEST_LINE = 1 << 20  # bytes: documents are longer than sentences


@dataclass(frozen=True)
class Document:
    """A text, its labels, and where it stands."""

    text: str
    labels: tuple[str, ...]
    path: str = ""
    line: int = 0

    @property
    def source(self) -> str:
        return self.text


@dataclass(frozen=True)
class Form:
    """How a line holds text and labels."""

    name: str  # tsv, jsonl or first
    text: str  # column number or field name
    label: str
    separator: str  # between the labels of one text; empty where each has one
    until: str  # a label ends here

    def __post_init__(self) -> None:
        if self.name not in READERS:
            raise ValueError(f"layout is {self.name!r}; choose one of {', '.join(READERS)}")

    def read(self, line: str) -> tuple[str, tuple[str, ...]]:
        """Text and labels; a ValueError says what is wrong with the line."""
        text, label = READERS[self.name](line, self)
        given = label if isinstance(label, list) else label.split(self.separator) if self.separator else [label]
        return one_line(text), tuple(dict.fromkeys(self.cut(str(one).strip()) for one in given if str(one).strip()))

    def cut(self, label: str) -> str:
        return label.split(self.until)[0] if self.until else label

    def write(self, text: str, labels: Sequence[str]) -> str:
        """A line as in the training file; columns that were passed over there are left out."""
        joined = (self.separator or ",").join(labels)
        if self.name == "jsonl":
            return json.dumps(
                {self.text: text, self.label: list(labels) if self.separator else joined}, ensure_ascii=False
            )
        if self.name == "first":
            return f"{joined} {text}"
        return f"{text}\t{joined}" if int(self.text) < int(self.label) else f"{joined}\t{text}"


def form_of(path: Path, layout: str, fields: tuple[str | int, str | int], many: bool, cuts: tuple[str, str]) -> Form:
    """By the name of the file, where the layout is not given. `cuts`: between labels, and at the end of one."""
    names = [suffix for suffix in path.suffixes if suffix not in PACKED]
    by_name = {".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv"}
    name = by_name.get(names[-1] if names else "", "first") if layout == "auto" else layout
    usual = {"tsv": ("1", "2"), "jsonl": ("text", "label"), "first": ("", "")}[name]
    text, label = (str(given) or one for given, one in zip(fields, usual, strict=True))
    if name == "tsv" and not (text.isdigit() and label.isdigit() and int(text) and int(label) and text != label):
        raise UsageError(f"text_field and label_field are {text!r} and {label!r}; a TSV file needs two column numbers")
    return Form(name, text, label, cuts[0] if many else "", cuts[1])


def read(path: Path, form: Form, invalid: Invalid = "error") -> Iterator[Document]:
    """All lines of a file; a line without text or label comes with nothing in its place."""
    columns = 0  # of the first line of a table: more of them are a tab inside a text
    for number, line, problem in lines(path, invalid, LONGEST_LINE):
        if line is None:
            raise UsageError(f"{path}:{number}: {problem}; mend the line")
        if not line.strip():
            continue
        columns = columns or line.count("\t") + 1
        try:
            text, labels = form.read(line)
            if form.name == "tsv" and line.count("\t") >= columns:
                raise ValueError(
                    f"{line.count(chr(9)) + 1} columns, but {columns} in the first line: is a tab in the text?"
                )
        except ValueError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        if len(labels) != 1 and not form.separator:
            raise UsageError(
                f"{path}:{number}: {len(labels)} labels, one is wanted; for several set task.multi_label = true"
            )
        yield Document(text, labels, str(path), number)


def _tsv(line: str, form: Form) -> tuple[str, Any]:
    cells, text, label = line.split("\t"), int(form.text), int(form.label)
    if len(cells) < max(text, label):
        columns = f"{len(cells)} column{'s' * (len(cells) != 1)}"
        raise ValueError(f"{columns}, at least {max(text, label)} are wanted: the text in {text}, its label in {label}")
    return cells[text - 1], cells[label - 1]


def _jsonl(line: str, form: Form) -> tuple[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({str(error)[:80]})") from None
    if not isinstance(row, dict) or form.text not in row or form.label not in row:
        fields = ", ".join(row)[:60] if isinstance(row, dict) else "none"
        raise ValueError(f"no {form.text!r} or no {form.label!r}; the fields are {fields}")
    text, label = row[form.text], row[form.label]
    if not isinstance(text, str):
        raise ValueError(f"{form.text!r} is no text")
    if isinstance(label, list) and not form.separator:
        raise ValueError(f"{form.label!r} is a list, one label is wanted; for several set task.multi_label = true")
    given = label if isinstance(label, list) else [label]
    if any(one is None or isinstance(one, dict | list) for one in given):
        raise ValueError(f"{form.label!r} is {json.dumps(label)[:40]}; a text or a number is wanted")
    spelled = [json.dumps(one) if isinstance(one, bool) else one for one in given]
    return text, spelled if isinstance(label, list) else str(spelled[0])


def _first(line: str, form: Form) -> tuple[str, Any]:  # noqa: ARG001
    label, _, text = line.strip().partition(" ")
    return text.strip(), label.removeprefix("__label__")


READERS: dict[str, Callable[[str, Form], tuple[str, Any]]] = {"tsv": _tsv, "jsonl": _jsonl, "first": _first}
