"""A sentence with tags in it, and the same tags in its translation."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Protocol, runtime_checkable

from headway.serve.projection import Links, Node, Placed, Projection


@runtime_checkable
class Translated(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def alignment(self) -> Links: ...


@dataclass(frozen=True)
class Sentence:
    """Some words and the inline elements among them."""

    raw: str  # as it was written
    text: str  # what a reader sees, with its spaces
    nodes: list[Node]

    @property
    def plain(self) -> str:
        return " ".join(self.text.split())

    def rendered(self, translated: Translated) -> str:
        """The translation with all tags, and nothing in it that could be taken for markup."""
        if translated.text == self.plain:
            return self.raw
        before = self.text[: len(self.text) - len(self.text.lstrip())]
        after = self.text[len(self.text.rstrip()) :]
        placed = Projection(self.text, translated.text, translated.alignment).place(self.nodes)
        return escaped(before) + render(translated.text, placed, 0, len(translated.text)) + escaped(after)


def escaped(text: str) -> str:
    return escape(text, quote=False).replace("\xa0", "&nbsp;")


def render(text: str, placed: list[Placed], start: int, end: int) -> str:
    pieces = []
    for one in placed:
        inside = render(text, one.children, one.start, one.end)
        pieces += [escaped(text[start : one.start]), one.node.opening, inside, one.node.closing]
        start = one.end
    return "".join(pieces) + escaped(text[start:end])
