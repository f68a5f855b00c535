"""Scores of one system's outputs against the references."""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics.chrf import CHRF

from headway.metrics.bootstrap import SEED, affordable, bounds, seeded
from headway.metrics.catalogue import Measure, choose
from headway.metrics.score import Score, Scores

USUAL = choose("bleu,chrf")


def measure(
    hypotheses: Sequence[str],
    references: Sequence[str],
    measures: Sequence[Measure] = USUAL,
    language: str = "",
    resamples: int = 0,
    seed: int = SEED,
) -> Scores:
    """Every measure of the outputs; with `resamples`, each has its 95 % interval."""
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(f"{len(hypotheses)} outputs for {len(references)} references: give as many, at least one")
    samples = affordable(resamples, len(references)) if resamples > 0 else 1
    scores: dict[str, Score] = {}
    for one in measures:
        metric = one.build(language)
        with seeded(seed):
            found = metric.corpus_score(hypotheses, [references], n_bootstrap=samples)
        low, high = bounds(found._mean, found._ci) if samples > 1 else (None, None)
        signature = str(metric.get_signature())
        scores[one.name] = Score(float(found.score), low, high, signature, one.higher_is_better)
    return Scores(scores)


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF of each sentence by itself: the measure that is still fair to a single short sentence."""
    metric = CHRF()
    return [
        float(metric.sentence_score(said, [meant]).score) for said, meant in zip(hypotheses, references, strict=True)
    ]
