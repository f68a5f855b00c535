"""Evaluation of one system on a test set: scores, scores by length, suspicious outputs, and all sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headway.metrics import Measure, Scores, measure, sentence_chrf
from headway.metrics.slices import by_length
from headway.reports.testset import Outputs, TestSet
from headway.version import installed


@dataclass(frozen=True)
class Bucket:
    """The scores of the sentences in a range of lengths."""

    name: str
    sentences: int
    scores: dict[str, float]


@dataclass(frozen=True)
class Sentence:
    """One sentence with its output; `line` counts from 1."""

    line: int
    source: str | None
    reference: str
    output: str
    chrf: float
    confidence: float | None


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of one system on one test set; sentences are sorted by chrF, worst first."""

    system: str
    language: str
    scores: Scores
    lengths: tuple[Bucket, ...]
    oddities: dict[str, int]
    sentences: tuple[Sentence, ...]
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {
            "headway": installed("headway"),
            "system": self.system,
            "language": self.language,
            "count": len(self.sentences),
            "seconds": self.seconds,
            "scores": self.scores.to_dict(),
            "lengths": [asdict(bucket) for bucket in self.lengths],
            "oddities": self.oddities,
            "sentences": [asdict(sentence) for sentence in self.sentences],
        }


def evaluate(outputs: Outputs, test: TestSet, measures: Sequence[Measure], resamples: int, seed: int) -> Evaluation:
    """Return the evaluation of a system's outputs."""
    scores = measure(outputs.texts, test.references, measures, test.language, resamples, seed)
    return Evaluation(
        system=outputs.name,
        language=test.language,
        scores=scores,
        lengths=_by_length(outputs.texts, test, measures),
        oddities=find_oddities(outputs.texts, test),
        sentences=_worst_first(outputs, test),
        seconds=outputs.seconds,
    )


def _by_length(texts: Sequence[str], test: TestSet, measures: Sequence[Measure]) -> tuple[Bucket, ...]:
    quick = [one for one in measures if not one.costly]
    buckets = []
    for part in by_length(test.references, test.language):
        said, meant = ([side[row] for row in part.rows] for side in (texts, test.references))
        scores = measure(said, meant, quick, test.language)
        buckets.append(Bucket(part.name, len(part.rows), scores.values_by_name()))
    return tuple(buckets)


def _worst_first(outputs: Outputs, test: TestSet) -> tuple[Sentence, ...]:
    chrf = sentence_chrf(outputs.texts, test.references)
    sentences = [
        Sentence(
            line=row + 1,
            source=test.sources[row] if test.sources else None,
            reference=reference,
            output=outputs.texts[row],
            chrf=chrf[row],
            confidence=outputs.confidences[row] if outputs.confidences else None,
        )
        for row, reference in enumerate(test.references)
    ]
    return tuple(sorted(sentences, key=lambda sentence: (sentence.chrf, sentence.line)))


def find_oddities(texts: Sequence[str], test: TestSet) -> dict[str, int]:
    """Return how many sentences have each of some faults that an average hides."""
    pairs = list(zip(texts, test.references, strict=True))
    found = {
        "empty output": sum(not said.strip() and bool(meant.strip()) for said, meant in pairs),
        "repeated words": sum(loops(said) and not loops(meant) for said, meant in pairs),
        "less than half the reference's length": sum(_much_shorter(said, meant) for said, meant in pairs),
        "more than twice the reference's length": sum(_much_shorter(meant, said) for said, meant in pairs),
    }
    if test.sources is not None:
        triples = zip(texts, test.references, test.sources, strict=True)
        found["source copied, reference differs"] = sum(said == source != meant for said, meant, source in triples)
    return found


def _much_shorter(text: str, other: str) -> bool:
    """Return whether a text is less than half as long as another, and more than 10 characters shorter."""
    return bool(text.strip()) and 2 * len(text) < len(other) and len(other) - len(text) > 10


def loops(text: str) -> bool:
    """Return whether 1 to 3 words occur four times in a row, as in outputs of a decoder that loops."""
    words = text.split()
    return any(
        words[start : start + size] * 3 == words[start + size : start + 4 * size]
        for size in (1, 2, 3)
        for start in range(len(words) - 4 * size + 1)
    )
