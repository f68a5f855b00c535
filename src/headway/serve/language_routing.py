"""From what a client asks in its own words to the service's: languages by any name, texts of any kind, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from headway.data.glossary import Glossary
from headway.serve.detection import Guess
from headway.serve.documents import Readable
from headway.serve.middleware import note
from headway.serve.pivot_routing import Languages, Route, join_answers
from headway.serve.problems import Problem
from headway.serve.service import Answer, Service

AUTO = "auto"
NO_TERMS = Glossary()
FEW_CHARACTERS = 2000  # of a file that are translated at a time: others get their turn in between
TRIES = 60  # for such a part, when the server is busy


@dataclass(frozen=True)
class RoutedTranslation:
    """A document's languages, and an answer for each of its texts."""

    source: Guess
    target: str
    answers: list[Answer]


class LanguageRouter:
    """Finds languages and asks the service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def languages(self) -> Languages:
        return Languages(self.service.pairs)

    async def detect(self, texts: Sequence[str]) -> list[list[Guess]]:
        if not self.languages.all:
            raise Problem(400, "no model here translates; see /v1/models")
        return await self.service.readers.guesses(self.languages.all, texts)

    async def translate(
        self,
        documents: Sequence[Readable],
        source: str,
        target: str,
        alternatives: int = 0,
        glossary: Glossary = NO_TERMS,
    ) -> list[RoutedTranslation]:
        """All texts of all documents in one language go to the service together."""
        to = self.languages.resolve(target)
        guesses = await self.sources(documents, source, to)
        found: dict[int, RoutedTranslation] = {}
        for language in dict.fromkeys(guess.language for guess in guesses):
            numbers = [number for number, guess in enumerate(guesses) if guess.language == language]
            mine = [documents[number] for number in numbers]
            answers = await self.answers(mine, language, to, alternatives, glossary)
            found |= {
                number: RoutedTranslation(guesses[number], to, mine)
                for number, mine in zip(numbers, answers, strict=True)
            }
        return [found[number] for number in range(len(documents))]

    async def translate_file(
        self, document: Readable, source: str, target: str, glossary: Glossary = NO_TERMS
    ) -> RoutedTranslation:
        """Part by part, and patiently: a file may take longer than a request may wait."""
        to = self.languages.resolve(target)
        (guess,) = await self.sources([document], source, to)
        if guess.language == to:
            return RoutedTranslation(guess, to, [Answer(text) for text in document.texts])
        way = self.languages.route(guess.language, to)
        answers: list[Answer] = []
        for part in parts(document.texts, self.service.limits.texts):
            answers += await self.patiently(part, way, document.aligned, glossary)
        return RoutedTranslation(guess, to, answers)

    async def sources(self, documents: Sequence[Readable], source: str, target: str) -> list[Guess]:
        """The language of each document: the one that was given, or the likeliest that can be translated."""
        if source.strip().lower() != AUTO:
            return [Guess(self.languages.resolve(source), 100.0)] * len(documents)
        among = [*self.languages.sources(target), target]
        samples = ["\n".join(document.texts) for document in documents]
        return await self.service.readers.source(self.languages.all, samples, among)

    async def answers(
        self, documents: Sequence[Readable], source: str, target: str, alternatives: int, glossary: Glossary
    ) -> list[list[Answer]]:
        """For each document an answer for each of its texts. What is in the target language already stays."""
        texts = [document.texts for document in documents]
        if source == target:
            return [[Answer(text) for text in mine] for mine in texts]
        way, flat = self.languages.route(source, target), [text for mine in texts for text in mine]
        aligned = any(document.aligned for document in documents)
        size = self.service.limits.texts  # a page has more sentences than a request may have texts
        asked = [flat[start : start + size] for start in range(0, len(flat), size)]
        found = await asyncio.gather(*(self.along(way, part, aligned, alternatives, glossary) for part in asked))
        done = (answer for part in found for answer in part)
        return [[next(done) for _ in mine] for mine in texts]

    async def along(
        self, way: Route, texts: list[str], aligned: bool, alternatives: int = 0, glossary: Glossary = NO_TERMS
    ) -> list[Answer]:
        """An answer for each text: by the one model, or by the second what the first has said.

        Through two models, a term of the glossary stays as it is in the language between them.
        """
        terms = await asyncio.to_thread(rows_for, glossary, texts) if glossary.terms else []
        if len(terms) > self.service.limits.terms and len(texts) > 1:
            middle = len(texts) // 2
            parts = (texts[:middle], texts[middle:])
            halves = [await self.along(way, part, aligned, alternatives, glossary) for part in parts]
            return halves[0] + halves[1]
        *before, last = way
        given: dict[str, Any] = {"alternatives": alternatives, "alignments": aligned, "glossary": terms}
        if not before:
            return await self.service.translate(texts, last, **given)
        kept = [(term, term) for term, _ in terms]
        first = await self.service.translate(texts, before[0], alignments=aligned, glossary=kept)
        second = await self.service.translate([answer.text for answer in first], last, **given)
        return [join_answers(*both) for both in zip(first, second, strict=True)]

    async def patiently(self, texts: list[str], way: Route, aligned: bool, glossary: Glossary) -> list[Answer]:
        """Come back as often as the server says that it is busy."""
        for _ in range(TRIES):
            try:
                return await self.along(way, texts, aligned, glossary=glossary)
            except Problem as problem:
                if problem.status != 429:
                    raise
                await asyncio.sleep(problem.retry_after or 1)
        raise Problem(429, "the server is too busy for a file; come back later", 60)


def note_all(request: Request, found: Sequence[RoutedTranslation], texts: Sequence[str]) -> None:
    """For the log; of several languages the first."""
    if found:
        note(request, found[0].source.language, found[0].target, texts)


def rows_for(glossary: Glossary, texts: Sequence[str]) -> list[tuple[str, str]]:
    """The rows of a glossary whose terms are in any of the texts."""
    return list(dict.fromkeys(row for text in texts for row in glossary.within(text)))


def parts(texts: Sequence[str], most: int) -> list[list[str]]:
    """Some texts at a time, in order."""
    found: list[list[str]] = []
    room = 0
    for text in texts:
        if not found or room < len(text) or len(found[-1]) == most:
            found.append([])
            room = FEW_CHARACTERS
        found[-1].append(text)
        room -= len(text)
    return found
