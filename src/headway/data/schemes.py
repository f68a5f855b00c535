"""Tagging schemes that encode spans as labels of words: BIO, BIOES, BMES and BILOU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

OUTSIDE = "O"
FEW = 0.05  # share of labels other than O that may violate a scheme


class Span(NamedTuple):
    """A span of words from `start` up to, but excluding, `end`."""

    kind: str
    start: int
    end: int


class Parts(NamedTuple):
    """The letter of a label in BIOES, and its kind."""

    letter: str
    kind: str


@dataclass(frozen=True)
class Scheme:
    """A scheme by its letters for the first, inner, last and only word of a span; "" for letters it lacks."""

    name: str
    first: str = "B"
    inner: str = "I"
    last: str = ""
    only: str = ""

    @property
    def letters(self) -> set[str]:
        return {letter for letter in (self.first, self.inner, self.last, self.only) if letter}

    def split(self, label: str) -> Parts:
        """Split a label: B-PER into B and PER, and B into B without a kind; other labels are outside."""
        letter, _, kind = label.partition("-")
        spelled = {self.first: "B", self.inner: "I", self.last: "E", self.only: "S"}
        return Parts(spelled.get(letter, OUTSIDE), kind) if letter in self.letters else Parts(OUTSIDE, "")

    def label(self, letter: str, kind: str) -> str:
        spelled = {"B": self.first, "I": self.inner, "E": self.last or self.inner, "S": self.only or self.first}
        return f"{spelled[letter]}-{kind}" if kind else spelled[letter]

    # ------------------------------------------------------------ spans

    def spans(self, labels: Sequence[str]) -> list[Span]:
        """Return the spans as conlleval reads them, which also reads invalid sequences."""
        found, start, before = [], 0, Parts(OUTSIDE, "")
        for place, here in enumerate([*map(self.split, labels), Parts(OUTSIDE, "")]):
            if _ends(before, here):
                found.append(Span(before.kind, start, place))
            if _starts(before, here):
                start = place
            before = here
        return found

    def strict_spans(self, labels: Sequence[str]) -> list[Span]:
        """Return only the spans that are encoded without error."""
        parts, found, place = [self.split(label) for label in labels], [], 0
        while place < len(parts):
            end = self._whole(parts, place)
            if end > place:
                found.append(Span(parts[place].kind, place, end))
            place = max(end, place + 1)
        return found

    def _whole(self, parts: Sequence[Parts], start: int) -> int:
        """Return the end of the span that begins at `start`, or `start` if there is none."""
        letter, kind = parts[start]
        if letter == "S":
            return start + 1
        if letter != "B":
            return start
        end = start + 1
        while end < len(parts) and parts[end] == Parts("I", kind):
            end += 1
        if not self.last:
            return end
        return end + 1 if end < len(parts) and parts[end] == Parts("E", kind) else start

    def spell(self, spans: Iterable[Span], length: int) -> list[str]:
        """Return the labels of `length` words that encode these spans."""
        labels = [OUTSIDE] * length
        for kind, start, end in spans:
            letters = "S" if end - start == 1 else "B" + "I" * (end - start - 2) + "E"
            labels[start:end] = [self.label(letter, kind) for letter in letters]
        return labels

    def repair(self, labels: Sequence[str]) -> list[str]:
        """Return valid labels for the spans as conlleval reads them."""
        return self.spell(self.spans(labels), len(labels))

    # ------------------------------------------------------------ neighbours

    def follows(self, before: str | None, after: str | None) -> bool:
        """Return whether a label may follow another; None is the edge of a sentence."""
        one = Parts(OUTSIDE, "") if before is None else self.split(before)
        two = Parts(OUTSIDE, "") if after is None else self.split(after)
        goes_on = two.letter in "IE"
        same = one.kind == two.kind and one.letter in "BI"
        if goes_on:
            return same
        return one.letter not in "BI" or not self.last


class NoScheme(Scheme):
    """Labels that encode no spans, such as parts of speech."""

    @property
    def letters(self) -> set[str]:
        return set()

    def repair(self, labels: Sequence[str]) -> list[str]:
        return list(labels)


def _ends(before: Parts, here: Parts) -> bool:
    return before.letter != OUTSIDE and (before.letter in "ES" or here.letter in "BSO" or before.kind != here.kind)


def _starts(before: Parts, here: Parts) -> bool:
    return here.letter != OUTSIDE and (here.letter in "BS" or before.letter in "ESO" or before.kind != here.kind)


NONE = NoScheme("none")
SCHEMES = {
    scheme.name: scheme
    for scheme in (
        NONE,
        Scheme("bio"),
        Scheme("bioes", last="E", only="S"),
        Scheme("bmes", inner="M", last="E", only="S"),
        Scheme("bilou", last="L", only="U"),
    )
}


def detect(labels: Iterable[str]) -> Scheme:
    """Return the scheme with whose letters all labels begin; NONE if they encode no spans."""
    inside = {label for label in labels if label != OUTSIDE}
    letters = set(_letters(inside))
    if not inside or not all(label[1:2] in ("-", "") for label in inside):
        return NONE
    return next((scheme for scheme in list(SCHEMES.values())[1:] if letters <= scheme.letters), NONE)


def nearly(counts: Mapping[str, int]) -> tuple[Scheme, tuple[str, ...]]:
    """Return the scheme that all but a few labels follow, and those few."""
    inside = {label: count for label, count in counts.items() if label != OUTSIDE}
    for scheme in list(SCHEMES.values())[1:]:
        strange = [label for label in inside if not (label[:1] in scheme.letters and label[1:2] in ("-", ""))]
        if sum(inside[label] for label in strange) <= FEW * sum(inside.values()):
            return scheme, tuple(strange)
    return NONE, ()


def _letters(labels: Iterable[str]) -> Iterator[str]:
    return (label[:1] for label in labels)
