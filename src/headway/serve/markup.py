"""HTML in, the same HTML out with its text translated. Markup is never rebuilt: it is kept as it was written."""

from __future__ import annotations

from collections.abc import Sequence

from headway.serve.html_segments import passages
from headway.serve.tagged_sentence import Sentence, Translated


class Markup:
    """A document: pieces that stay as they are, and sentences."""

    def __init__(self, html: str) -> None:
        self.pieces = list(passages(html))
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
