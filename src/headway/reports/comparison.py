"""Everything a comparison of two systems found: is the difference real, where is it, in which sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headway.metrics import Measure, Paired, measure, paired_bootstrap, sentence_chrf
from headway.metrics.slices import Pick, Slice, by_length, count_words, kept, negation, numbers, rare, where
from headway.reports.testset import Outputs, TestSet
from headway.version import installed

TIE = 0.5  # points of chrF: below this, nobody would see a winner
RARE = 5  # a word seen so often in the training text, or less, is rare


@dataclass(frozen=True)
class Duel:
    """One sentence and what both systems made of it, counted from 1 as in the file."""

    line: int
    source: str | None
    reference: str
    first: str
    second: str
    first_chrf: float
    second_chrf: float

    @property
    def gain(self) -> float:
        return self.second_chrf - self.first_chrf


@dataclass(frozen=True)
class Part:
    """A part of the test set: the scores of both systems there, who won, and what each kept of the point at issue."""

    name: str
    sentences: int
    first: dict[str, float]
    second: dict[str, float]
    tally: tuple[int, int, int]  # wins of the second, losses, ties
    kept: tuple[float, float] | None = None  # percent of the numbers (rare words, ...) found again


@dataclass(frozen=True)
class Comparison:
    """Two systems on one test set. Gains and wins are those of the second; duels stand biggest loss first."""

    first: str
    second: str
    language: str
    scores: dict[str, Paired]
    rare: str  # what was taken for a rare word
    tally: tuple[int, int, int]
    lengths: tuple[Part, ...]
    phenomena: tuple[Part, ...]
    duels: tuple[Duel, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "headway": installed("headway"),
            "systems": [self.first, self.second],
            "language": self.language,
            "count": len(self.duels),
            "scores": {name: {**asdict(pair), "gain": pair.gain} for name, pair in self.scores.items()},
            "tie_below_chrf": TIE,
            "rare_words": self.rare,
            "tally": _tally_dict(self.tally),
            "lengths": [_part_dict(part) for part in self.lengths],
            "phenomena": [_part_dict(part) for part in self.phenomena],
            "sentences": [{**asdict(duel), "gain": duel.gain} for duel in self.duels],
        }


def _tally_dict(tally: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("wins", "losses", "ties"), tally, strict=True))


def _part_dict(part: Part) -> dict[str, Any]:
    return {**asdict(part), "tally": _tally_dict(part.tally)}


@dataclass(frozen=True)
class Rivals:
    """Two systems, the test set, and the duels between them."""

    first: Outputs
    second: Outputs
    test: TestSet
    duels: tuple[Duel, ...]

    def part(self, piece: Slice, measures: Sequence[Measure], pick: Pick | None = None) -> Part:
        meant = [self.test.references[row] for row in piece.rows]
        one, two = ([side.texts[row] for row in piece.rows] for side in (self.first, self.second))
        first, second = (measure(said, meant, measures, self.test.language).values_by_name() for said in (one, two))
        tally = count_wins([self.duels[row] for row in piece.rows])
        shares = (kept(pick, one, meant), kept(pick, two, meant)) if pick else (None, None)
        found = None if shares[0] is None or shares[1] is None else (shares[0], shares[1])
        return Part(piece.name, len(piece.rows), first, second, tally, found)


def compare(
    first: Outputs,
    second: Outputs,
    test: TestSet,
    measures: Sequence[Measure],
    resamples: int,
    seed: int,
    training: Sequence[str] | None = None,
) -> Comparison:
    """Compare two systems; `training` is target text that tells which words are rare."""
    scores = paired_bootstrap(first.texts, second.texts, test.references, measures, test.language, resamples, seed)
    rivals = Rivals(first, second, test, _duels(first, second, test))
    quick = [one for one in measures if not one.costly]
    lengths = [rivals.part(piece, quick) for piece in by_length(test.references, test.language)]
    picks = phenomena(test, training)
    pieces = {name: where(name, pick, test.references) for name, pick in picks.items()}
    return Comparison(
        first=first.name,
        second=second.name,
        language=test.language,
        scores=scores,
        rare=say_rare(training is not None),
        tally=count_wins(rivals.duels),
        lengths=tuple(lengths),
        phenomena=tuple(rivals.part(pieces[n], quick, picks[n]) for n in picks if pieces[n].rows),
        duels=tuple(sorted(rivals.duels, key=lambda duel: (duel.gain, duel.line))),
    )


def _duels(first: Outputs, second: Outputs, test: TestSet) -> tuple[Duel, ...]:
    ones, twos = (sentence_chrf(side.texts, test.references) for side in (first, second))
    return tuple(
        Duel(
            line=row + 1,
            source=test.sources[row] if test.sources else None,
            reference=reference,
            first=first.texts[row],
            second=second.texts[row],
            first_chrf=ones[row],
            second_chrf=twos[row],
        )
        for row, reference in enumerate(test.references)
    )


def count_wins(duels: Sequence[Duel]) -> tuple[int, int, int]:
    """How often the second won, lost, and was as good."""
    wins = sum(duel.gain >= TIE for duel in duels)
    losses = sum(duel.gain <= -TIE for duel in duels)
    return wins, losses, len(duels) - wins - losses


def phenomena(test: TestSet, training: Sequence[str] | None) -> dict[str, Pick]:
    """What to look for in the references: numbers, denial, rare words."""
    counts = count_words(test.references if training is None else training, test.language)
    picks: dict[str, Pick] = {"numbers": numbers}
    deny = negation(test.language)
    if deny is not None:
        picks["negation"] = deny
    picks["rare words"] = rare(counts, 1 if training is None else RARE, test.language)
    return picks


def say_rare(trained: bool) -> str:
    return f"seen at most {RARE} times in the training text" if trained else "standing once in the references"
