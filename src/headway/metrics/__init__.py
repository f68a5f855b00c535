"""Metrics: BLEU, chrF, TER, error rates, F1 and others, each with a signature that says how it was computed."""

from __future__ import annotations

from headway.metrics.bootstrap import Paired, paired_bootstrap
from headway.metrics.catalogue import Measure, bleu_tokenizer, choose
from headway.metrics.distance import edit_distances
from headway.metrics.measure import measure, sentence_chrf
from headway.metrics.score import Score, Scores

__all__ = [
    "Measure",
    "Paired",
    "Score",
    "Scores",
    "bleu_tokenizer",
    "choose",
    "edit_distances",
    "measure",
    "paired_bootstrap",
    "sentence_chrf",
]
