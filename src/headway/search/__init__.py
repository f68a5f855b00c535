"""From a model's scores to outputs: small functions over `start`, `step` and `reorder`."""

from __future__ import annotations

from headway.search.base import Hypothesis, Search, Stepper
from headway.search.beam import Beam
from headway.search.beam_record import Record
from headway.search.constrained import Constrained
from headway.search.ensemble import Ensemble
from headway.search.greedy import Greedy
from headway.search.limits import Limits
from headway.search.sample import Sample
from headway.search.scoring import score, score_texts

SearchSettings = Greedy | Beam | Sample

__all__ = [
    "Beam",
    "Constrained",
    "Ensemble",
    "Greedy",
    "Hypothesis",
    "Limits",
    "Record",
    "Sample",
    "Search",
    "SearchSettings",
    "Stepper",
    "score",
    "score_texts",
]
