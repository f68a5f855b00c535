"""Confidence intervals and the paired significance test of two systems: sacreBLEU's bootstrap resampling, seeded."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import SupportsFloat

from sacrebleu.significance import PairedTest, Result

from headway.errors import UsageError
from headway.metrics.catalogue import Measure
from headway.metrics.score import Score

SEED = 12345  # sacreBLEU's default, so that results equal those of its command line
PICKS = 10_000_000  # most sentences drawn in all resamples together: chrF needs 72 bytes for each
FEWEST = 40  # fewest resamples for a 95 % interval, which excludes one in forty on each side


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Set sacreBLEU's seed, which it reads from the environment, for the duration of the block."""
    if seed < 1:
        raise UsageError(f"seed {seed}: choose an integer of at least 1")
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        os.environ.pop("SACREBLEU_SEED")
        if before is not None:
            os.environ["SACREBLEU_SEED"] = before


def affordable(resamples: int, sentences: int) -> int:
    """Return how many resamples to take: fewer for huge test sets, to bound memory. The signature gives the number."""
    return min(resamples, max(FEWEST, PICKS // max(1, sentences)))


@dataclass(frozen=True)
class Paired:
    """The scores of two systems in one metric, and the p-value of their difference."""

    first: Score
    second: Score
    p: float

    @property
    def gain(self) -> float:
        """By how much the second system is better; negative if it is worse."""
        change = self.second.value - self.first.value
        return change if self.first.higher_is_better else -change


def paired_bootstrap(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    measures: Sequence[Measure],
    language: str = "",
    resamples: int = 1000,
    seed: int = SEED,
) -> dict[str, Paired]:
    """Return the result of sacreBLEU's paired bootstrap test of two systems, by the name of the metric."""
    samples = affordable(resamples, len(references))
    systems: list[tuple[str, Sequence[str]]] = [("first", first), ("second", second)]
    results: dict[str, Paired] = {}
    for measure in measures:
        with seeded(seed):
            metrics = {measure.name: measure.build(language)}
            signatures, scores = PairedTest(systems, metrics, [references], "bs", n_samples=samples)()
        title = next(iter(signatures))
        one, two = (
            _score(result, str(signatures[title]), measure) for result in scores[title] if isinstance(result, Result)
        )
        results[measure.name] = Paired(one, two, _p_value(first, second, scores[title][1]))
    return results


def _score(result: Result, signature: str, measure: Measure) -> Score:
    low, high = bounds(result.mean, result.ci)
    return Score(float(result.score), low, high, signature, measure.higher_is_better)


def bounds(mean: SupportsFloat | None, half: SupportsFloat | None) -> tuple[float | None, float | None]:
    """Return both ends of the 95 % interval, from sacreBLEU's mean and half width."""
    if mean is None or half is None:
        return None, None
    return float(mean) - float(half), float(mean) + float(half)


def _p_value(first: Sequence[str], second: Sequence[str], result: Result | str) -> float:
    """Return the p-value; 1 for equal outputs, for which sacreBLEU gives 0.001."""
    if list(first) == list(second) or not isinstance(result, Result) or result.p_value is None:
        return 1.0
    return float(result.p_value)
