"""Comparison of two systems on one test set: significance, slices and single sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headway.metrics import Measure, Paired, measure, paired_bootstrap, sentence_chrf
from headway.metrics.slices import Pick, Slice, by_length, count_words, kept, negation, numbers, rare, where
from headway.reports.testset import Outputs, TestSet
from headway.version import installed

TIE = 0.5  # points of chrF; sentences that differ by less are ties
RARE = 5  # a word is rare if it occurs at most so often in the training text


@dataclass(frozen=True)
class Duel:
    """One sentence with the outputs of both systems and their chrF; `line` counts from 1."""

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
    """The scores of both systems on a slice of the test set."""

    name: str
    sentences: int
    first: dict[str, float]
    second: dict[str, float]
    tally: tuple[int, int, int]  # wins of the second, losses, ties
    kept: tuple[float, float] | None = None  # per cent of the slice's numbers or rare words that each output keeps


@dataclass(frozen=True)
class Comparison:
    """Two systems on one test set. Gains and wins are those of the second; sentences are sorted by gain, ascending."""

    first: str
    second: str
    language: str
    scores: dict[str, Paired]
    rare: str  # the definition of a rare word
    tally: tuple[int, int, int]
    lengths: tuple[Part, ...]
    phenomena: tuple[Part, ...]
    duels: tuple[Duel, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
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
    """The outputs of two systems on a test set, and their sentences side by side."""

    first: Outputs
    second: Outputs
    test: TestSet
    duels: tuple[Duel, ...]

    def part(self, piece: Slice, measures: Sequence[Measure], pick: Pick | None = None) -> Part:
        """Return the scores of both systems on a slice; with `pick`, also how many of its items each keeps."""
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
    """Return the comparison of two systems. `training` is target text whose word counts define rare words."""
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
    """Return in how many sentences the second system is better, worse, and equal within TIE."""
    wins = sum(duel.gain >= TIE for duel in duels)
    losses = sum(duel.gain <= -TIE for duel in duels)
    return wins, losses, len(duels) - wins - losses


def phenomena(test: TestSet, training: Sequence[str] | None) -> dict[str, Pick]:
    """Return the functions that find numbers, negation and rare words in a text, by name."""
    counts = count_words(test.references if training is None else training, test.language)
    picks: dict[str, Pick] = {"numbers": numbers}
    deny = negation(test.language)
    if deny is not None:
        picks["negation"] = deny
    picks["rare words"] = rare(counts, 1 if training is None else RARE, test.language)
    return picks


def say_rare(trained: bool) -> str:
    return f"occurring at most {RARE} times in the training text" if trained else "occurring once in the references"
