"""Plain text in, plain text out: lines, indents and blank lines stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from headway.serve.tagged_sentence import Translated
from headway.text.sentences import sentences

LONGEST = 2000  # characters that go through a model as one text; longer lines are cut between sentences or words
_CUT = re.compile(rf"(\S.{{0,{LONGEST - 1}}}(?=\s|\Z)|\S.{{0,{LONGEST - 1}}})(\s*)", re.DOTALL)


class PlainText:
    """A text: pieces that stay as they are, and those to translate."""

    aligned = False  # its words may go where they like

    def __init__(self, text: str, lines: bool = True) -> None:
        """With `lines`, every line is a text of its own; without, the end of a line is a space."""
        found = text.splitlines(keepends=True) if lines else [join_lines(text)]
        self.pieces = [piece for line in found for piece in split_line(line)]

    @property
    def texts(self) -> list[str]:
        return [piece for piece, is_text in self.pieces if is_text]

    def rendered(self, translations: Sequence[Translated]) -> str:
        done = iter(translations)
        return "".join(next(done).text if is_text else piece for piece, is_text in self.pieces)


def join_lines(text: str) -> str:
    """The text with a space for each end of a line inside it."""
    inside = text.strip()
    start = text.index(inside)
    return text[:start] + re.sub(r"\s*[\r\n]\s*", " ", inside) + text[start + len(inside) :]


def split_line(line: str) -> Iterator[tuple[str, bool]]:
    """The line in pieces, and for each: is it to be translated?"""
    words = line.strip()
    start = line.index(words)
    yield line[:start], False
    parts = [(words, "")] if len(words) <= LONGEST else sentences(words)
    for part, gap in parts:
        for piece, space in [(part, "")] if len(part) <= LONGEST else _CUT.findall(part):
            yield piece, any(map(str.isalnum, piece))
            yield space, False
        yield gap, False
    yield line[start + len(words) :], False
