"""Precision, recall and F1 of spans in tagging, counted as in the CoNLL shared tasks.

Ours rather than seqeval's, which the tests compare with: it would bring scikit-learn for these formulas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headway.data.schemes import Scheme, Span
from headway.metrics.score import Score, Scores

Labels = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Found:
    """Numbers of spans: in the references, in the outputs, and in both."""

    there: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        both = self.there + self.found
        return 2 * self.right / both if both else 0.0


@dataclass(frozen=True)
class SpanCounts:
    """Counts of all spans, and of the spans of each kind."""

    all: Found
    kinds: dict[str, Found] = field(default_factory=dict[str, Found])


def count_spans(outputs: Labels, references: Labels, read: Callable[[Sequence[str]], list[Span]]) -> SpanCounts:
    """Count spans. A span is correct if its kind and both ends are."""
    there: Counter[str] = Counter()
    found: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for said, meant in zip(outputs, references, strict=True):
        ours, theirs = set(read(said)), set(read(meant))
        for counter, spans in ((found, ours), (there, theirs), (right, ours & theirs)):
            counter.update(span.kind for span in spans)
    kinds = {kind: Found(there[kind], found[kind], right[kind]) for kind in sorted({*there, *found})}
    return SpanCounts(Found(there.total(), found.total(), right.total()), kinds)


def accuracy(outputs: Labels, references: Labels) -> float:
    """Return the share of words with the correct label, 0 to 1."""
    pairs = [pair for said, meant in zip(outputs, references, strict=True) for pair in zip(said, meant, strict=True)]
    return sum(said == meant for said, meant in pairs) / max(1, len(pairs))


def tag_scores(outputs: Labels, references: Labels, scheme: Scheme) -> Scores:
    """Return all scores in per cent. Labels without a span scheme have only an accuracy."""
    by_word = {"accuracy": Score(100 * accuracy(outputs, references), signature="words with the correct label")}
    if not scheme.letters:
        return Scores(by_word)
    lenient = count_spans(outputs, references, scheme.spans).all
    strict = count_spans(outputs, references, scheme.strict_spans).all
    how = f"spans, micro, scheme:{scheme.name}"
    return Scores(
        {
            "f1": Score(100 * lenient.f1, signature=f"{how}, conlleval"),
            "precision": Score(100 * lenient.precision, signature=f"{how}, conlleval"),
            "recall": Score(100 * lenient.recall, signature=f"{how}, conlleval"),
            "f1-strict": Score(100 * strict.f1, signature=f"{how}, strict"),
            **by_word,
        }
    )
