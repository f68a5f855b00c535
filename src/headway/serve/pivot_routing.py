"""From one language into another: by one model, or by two through a language that both know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.serve.models import Pair
from headway.serve.problems import Problem
from headway.serve.service import Answer
from headway.text.languages import find_language

BETWEEN = "en"  # the language that most models know

Route = tuple[Pair, ...]  # one direction, or two, one after the other


@dataclass(frozen=True)
class Languages:
    """What there is to choose from."""

    pairs: Sequence[Pair]

    @property
    def all(self) -> list[str]:
        """Sources first, every language once."""
        return list(dict.fromkeys([*[pair.source for pair in self.pairs], *[pair.target for pair in self.pairs]]))

    def resolve(self, code: str) -> str:
        found = find_language(code, self.all)
        if found is None:
            raise Problem(400, f"{code[:20].encode('ascii', 'replace').decode()} is not supported")
        return found

    def targets(self, source: str) -> list[str]:
        return [code for code in self.all if self.routes(source, code)]

    def sources(self, target: str) -> list[str]:
        return [code for code in self.all if self.routes(code, target)]

    def route(self, source: str, target: str) -> Route:
        for way in self.routes(source, target):
            return way
        raise Problem(400, f"{target} is not available as a target language from {source}")

    def routes(self, source: str, target: str) -> list[Route]:
        """The best first: a model of its own, then through English, then through any other language."""
        if source == target:
            return []
        out = [pair for pair in self.pairs if pair.source == source]
        direct: list[Route] = [(pair,) for pair in out if pair.target == target]
        into = {pair.source: pair for pair in reversed(self.pairs) if pair.target == target}
        double: list[Route] = [(pair, into[pair.target]) for pair in out if pair.target in into]
        return direct + sorted(double, key=lambda way: find_language(BETWEEN, [way[0].target]) is None)


def join_answers(first: Answer, second: Answer) -> Answer:
    """A translation of a translation, as one: sure of as much as both are, words followed through the middle."""
    onward: dict[int, list[int]] = {}
    for middle, target in second.alignment:
        onward.setdefault(middle, []).append(target)
    links = sorted({(source, target) for source, middle in first.alignment for target in onward.get(middle, [])})
    others = [join_answers(first, other) for other in second.alternatives]
    return replace(second, confidence=first.confidence * second.confidence, alignment=links, alternatives=others)
