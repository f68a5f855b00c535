"""How labels of words spell spans: BIO, BIOES and their relatives; read, written, repaired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

OUTSIDE = "O"
FEW = 0.05  # of the labels that are not outside


class Span(NamedTuple):
    """Words from `start` up to, not including, `end`."""

    kind: str
    start: int
    end: int


class Parts(NamedTuple):
    """A label's letter, as BIOES would spell it, and its kind."""

    letter: str
    kind: str


@dataclass(frozen=True)
class Scheme:
    """The letters of a span's first, inner, last and only word. Without a last, spans end where others begin."""

    name: str
    first: str = "B"
    inner: str = "I"
    last: str = ""
    only: str = ""

    @property
    def letters(self) -> set[str]:
        return {letter for letter in (self.first, self.inner, self.last, self.only) if letter}

    def split(self, label: str) -> Parts:
        """B-PER is B and PER; a lone B is a span without a kind; whatever else is outside."""
        letter, _, kind = label.partition("-")
        spelled = {self.first: "B", self.inner: "I", self.last: "E", self.only: "S"}
        return Parts(spelled.get(letter, OUTSIDE), kind) if letter in self.letters else Parts(OUTSIDE, "")

    def label(self, letter: str, kind: str) -> str:
        spelled = {"B": self.first, "I": self.inner, "E": self.last or self.inner, "S": self.only or self.first}
        return f"{spelled[letter]}-{kind}" if kind else spelled[letter]

    # ------------------------------------------------------------ spans

    def spans(self, labels: Sequence[str]) -> list[Span]:
        """As the CoNLL evaluation reads them: a broken sequence still gives spans."""
        found, start, before = [], 0, Parts(OUTSIDE, "")
        for place, here in enumerate([*map(self.split, labels), Parts(OUTSIDE, "")]):
            if _ends(before, here):
                found.append(Span(before.kind, start, place))
            if _starts(before, here):
                start = place
            before = here
        return found

    def strict_spans(self, labels: Sequence[str]) -> list[Span]:
        """Only those that are spelled without a fault."""
        parts, found, place = [self.split(label) for label in labels], [], 0
        while place < len(parts):
            end = self._whole(parts, place)
            if end > place:
                found.append(Span(parts[place].kind, place, end))
            place = max(end, place + 1)
        return found

    def _whole(self, parts: Sequence[Parts], start: int) -> int:
        """Where the span that begins here ends; at its beginning if there is none."""
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
        """The labels that say these spans."""
        labels = [OUTSIDE] * length
        for kind, start, end in spans:
            letters = "S" if end - start == 1 else "B" + "I" * (end - start - 2) + "E"
            labels[start:end] = [self.label(letter, kind) for letter in letters]
        return labels

    def repair(self, labels: Sequence[str]) -> list[str]:
        """Spans as the CoNLL evaluation reads them, spelled without a fault."""
        return self.spell(self.spans(labels), len(labels))

    # ------------------------------------------------------------ neighbours

    def follows(self, before: str | None, after: str | None) -> bool:
        """Whether two labels may stand side by side; None is the edge of a sentence."""
        one = Parts(OUTSIDE, "") if before is None else self.split(before)
        two = Parts(OUTSIDE, "") if after is None else self.split(after)
        goes_on = two.letter in "IE"
        same = one.kind == two.kind and one.letter in "BI"
        if goes_on:
            return same
        return one.letter not in "BI" or not self.last


class NoScheme(Scheme):
    """Labels that stand each for itself, as parts of speech do."""

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
    """The scheme whose letters these labels begin with; none where they are no spans."""
    inside = {label for label in labels if label != OUTSIDE}
    letters = set(_letters(inside))
    if not inside or not all(label[1:2] in ("-", "") for label in inside):
        return NONE
    return next((scheme for scheme in list(SCHEMES.values())[1:] if letters <= scheme.letters), NONE)


def nearly(counts: Mapping[str, int]) -> tuple[Scheme, tuple[str, ...]]:
    """The scheme that all but a few labels follow, and those few."""
    inside = {label: count for label, count in counts.items() if label != OUTSIDE}
    for scheme in list(SCHEMES.values())[1:]:
        strange = [label for label in inside if not (label[:1] in scheme.letters and label[1:2] in ("-", ""))]
        if sum(inside[label] for label in strange) <= FEW * sum(inside.values()):
            return scheme, tuple(strange)
    return NONE, ()


def _letters(labels: Iterable[str]) -> Iterator[str]:
    return (label[:1] for label in labels)
