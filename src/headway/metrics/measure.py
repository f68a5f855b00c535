"""Score the outputs of one system against references."""

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
    """Return the score of the outputs in each metric; with `resamples` > 0, also its 95 % interval."""
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(
            f"{len(hypotheses)} outputs for {len(references)} references: there must be as many, and at least one"
        )
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
    """Return the chrF of each sentence, the metric that is most meaningful for a single short sentence."""
    metric = CHRF()
    return [
        float(metric.sentence_score(said, [meant]).score) for said, meant in zip(hypotheses, references, strict=True)
    ]
