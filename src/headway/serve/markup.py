"""Markup in, the same markup out with its text translated. Tags are kept as they were written, never rebuilt."""

from __future__ import annotations

from collections.abc import Sequence

from headway.serve.markup_segments import split_document
from headway.serve.tagged_sentence import Sentence, Translated
from headway.serve.tags import Dialect, Html


class Markup:
    """A document: pieces that stay as they are, and sentences."""

    def __init__(self, document: str, dialect: Dialect | None = None) -> None:
        self.pieces = list(split_document(document, dialect or Html()))
        self.sentences = [piece for piece in self.pieces if isinstance(piece, Sentence)]

    @property
    def texts(self) -> list[str]:
        """What there is to translate."""
        return [sentence.plain for sentence in self.sentences]

    @property
    def aligned(self) -> bool:
        """Tags follow their words."""
        return any(sentence.nodes for sentence in self.sentences)

    def rendered(self, translations: Sequence[Translated]) -> str:
        """The document again; one translation for each of the texts."""
        done = iter(translations)
        return "".join(piece if isinstance(piece, str) else piece.rendered(next(done)) for piece in self.pieces)
