"""Files that can be translated: which kinds there are, and how each is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Protocol, runtime_checkable

from headway.serve.docx import Docx
from headway.serve.markup import Markup
from headway.serve.plain_text import PlainText
from headway.serve.problems import Problem
from headway.serve.subtitles import Subtitles
from headway.serve.tagged_sentence import Translated

MOST_CHARACTERS = 1_000_000  # to translate, in one file


@runtime_checkable
class Readable(Protocol):
    """What is to be translated."""

    @property
    def texts(self) -> list[str]: ...
    @property
    def aligned(self) -> bool:
        """Does it need to know which word came from which?"""
        ...


@runtime_checkable
class Written(Readable, Protocol):
    """A text that can be put together again."""

    def rendered(self, translations: Sequence[Translated]) -> str: ...


@runtime_checkable
class Document(Readable, Protocol):
    """A file that can be put together again."""

    def packed(self, translations: Sequence[Translated]) -> bytes: ...


class TextFile:
    """A file of characters, written again in the encoding it came in."""

    def __init__(self, data: bytes, read: Callable[[str], Written]) -> None:
        self.encoding = encoding_of(data)
        try:
            self.written = read(data.decode(self.encoding))
        except UnicodeDecodeError:
            raise Problem(400, "the file is not UTF-8; save it as UTF-8 and send it again") from None
        self.texts, self.aligned = self.written.texts, self.written.aligned

    def packed(self, translations: Sequence[Translated]) -> bytes:
        return self.written.rendered(translations).encode(self.encoding)


def encoding_of(data: bytes) -> str:
    marks = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    return next((encoding for mark, encoding in marks.items() if data.startswith(mark)), "utf-8")


FORMATS: dict[str, Callable[[bytes], Document]] = {
    ".txt": lambda data: TextFile(data, PlainText),
    ".srt": lambda data: TextFile(data, Subtitles),
    ".html": lambda data: TextFile(data, Markup),
    ".htm": lambda data: TextFile(data, Markup),
    ".docx": Docx,
}


def suffix_of(filename: str) -> str:
    """The kind of a file by its name; Problem 400 if we cannot translate it."""
    suffix = PurePath(filename.replace("\\", "/").replace("\0", "")).suffix.lower()
    if suffix not in FORMATS:
        raise Problem(400, f"Invalid request: file format not supported; it can be {', '.join(FORMATS)}")
    return suffix


def open_document(suffix: str, data: bytes) -> Document:
    if not data:
        raise Problem(400, "Invalid request: empty file")
    document = FORMATS[suffix](data)
    count = sum(map(len, document.texts))
    if count > MOST_CHARACTERS:
        raise Problem(413, f"the file holds {count:,} characters; at most {MOST_CHARACTERS:,} are translated at once")
    return document
