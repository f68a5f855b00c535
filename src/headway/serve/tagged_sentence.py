"""A sentence with tags in it, and the same tags in its translation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
    escape: Callable[[str], str]  # gives a text as it is written between tags

    @property
    def plain(self) -> str:
        return " ".join(self.text.split())

    def rendered(self, translated: Translated) -> str:
        """The translation with all tags, and nothing in it that could be taken for markup."""
        if translated.text == self.plain:
            return self.raw
        start, end = len(self.text) - len(self.text.lstrip()), len(self.text.rstrip())
        leading = [node for node in self.nodes if node.is_empty and node.end < start]
        trailing = [node for node in self.nodes if node.is_empty and node.start > end]
        between = [node for node in self.nodes if node not in leading and node not in trailing]
        placed = Projection(self.text, translated.text, translated.alignment).place(between)
        inside = self._render(translated.text, placed, 0, len(translated.text))
        return self._edge(0, start, leading) + inside + self._edge(end, len(self.text), trailing)

    def _edge(self, start: int, end: int, nodes: list[Node]) -> str:
        """The space before or behind all words, with the tags that stand in it."""
        pieces = []
        for node in nodes:
            pieces += [self.escape(self.text[start : node.start]), node.opening, node.closing.strip()]
            start = node.start
        return "".join(pieces) + self.escape(self.text[start:end])

    def _render(self, text: str, placed: list[Placed], start: int, end: int) -> str:
        """The characters from start to end with the tags placed among them."""
        pieces = []
        for one in placed:
            inside = self._render(text, one.children, one.start, one.end)
            pieces += [self.escape(text[start : one.start]), one.node.opening, inside, one.node.closing]
            start = one.end
        return "".join(pieces) + self.escape(text[start:end])
