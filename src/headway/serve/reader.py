"""A reading process: parses texts and files, writes their translations, guesses languages.

It does so apart from the server, which can end it at any moment: python -m headway.serve.reader
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from headway.serve.channel import Message
from headway.serve.detection import Detector
from headway.serve.documents import Document, Written, open_document
from headway.serve.markup import Markup
from headway.serve.plain_text import PlainText
from headway.serve.problems import Problem
from headway.serve.projection import Links
from headway.serve.tags import Xml
from headway.serve.worker import work

TEXTS: dict[str, Callable[..., Written]] = {  # all other kinds are of files
    "text": PlainText,
    "html": Markup,
    "xml": lambda source, outline=True, **tags: Markup(
        source, Xml(outline=outline, **{rule: frozenset(names) for rule, names in tags.items()})
    ),
}


class TranslatedText(NamedTuple):
    """The translation of one text."""

    text: str
    alignment: Links


class Reader:
    """Keeps nothing between two messages. A file's bytes come and go in Base64."""

    def __init__(self) -> None:
        self.acts = {"read": self.read, "write": self.write, "guesses": self.guesses, "source": self.source}

    def facts(self) -> list[Message]:
        """It has no models."""
        return []

    def answer(self, message: Message, stopped: Callable[[], bool]) -> Message:
        """What was `done`, or the `problem` with the request: its status and its detail."""
        try:
            return {"done": self.acts[message["act"]](**message["given"])}
        except Problem as problem:
            return {"problem": [problem.status, problem.detail]}

    def read(self, kind: str, sources: Sequence[str], options: Message) -> list[Message]:
        """For each source what there is to translate."""
        found = [open_source(kind, source, options) for source in sources]
        return [{"texts": one.texts, "aligned": one.aligned} for one in found]

    def write(self, kind: str, sources: Sequence[str], options: Message, answers: Sequence[Sequence[Any]]) -> list[str]:
        """Each source again, with a text and an alignment for each of its texts."""
        return [
            render(
                open_source(kind, source, options),
                [TranslatedText(text, [(one, other) for one, other in links]) for text, links in mine],
            )
            for source, mine in zip(sources, answers, strict=True)
        ]

    def guesses(self, known: Sequence[str], texts: Sequence[str]) -> list[list[Message]]:
        detector = Detector(known)
        return [[asdict(guess) for guess in detector.guesses(text)] for text in texts]

    def source(self, known: Sequence[str], texts: Sequence[str], among: Sequence[str]) -> list[Message]:
        detector = Detector(known)
        return [asdict(detector.source(text, among)) for text in texts]


def open_source(kind: str, source: str, options: Message) -> Written | Document:
    """The text or file; the options are those of its kind."""
    return TEXTS[kind](source, **options) if kind in TEXTS else open_document(kind, b64decode(source))


def render(document: Written | Document, answers: Sequence[TranslatedText]) -> str:
    if isinstance(document, Document):
        return b64encode(document.packed(answers)).decode()
    return document.rendered(answers)


def main() -> None:
    work(lambda *_: Reader())


if __name__ == "__main__":
    main()
