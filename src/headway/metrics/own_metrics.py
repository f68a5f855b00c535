"""Measures of our own that sacreBLEU lacks, as members of its family: it resamples and signs them like its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.base import Score as SacreScore

from headway.metrics.distance import edit_distances
from headway.version import installed

Split = Callable[[str], Sequence[str]]
Counts = list[list[float]]


class RatioSignature(Signature):
    """Says the unit that was counted and that headway counted it."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self._abbr |= {"unit": "u", "case": "c"}
        case = "lc" if args["lowercase"] else "mixed"
        self.info |= {"case": case, "unit": args["unit"], "version": f"headway-{installed('headway')}"}


class Ratio(Metric):
    """A percentage: what was counted, over what could have been; sums over sentences, so that sets add up."""

    _SIGNATURE_TYPE = RatioSignature

    def __init__(self, title: str, unit: str, lowercase: bool = False) -> None:
        super().__init__()
        self.title = title
        self.unit = unit
        self.lowercase = lowercase
        self.num_refs = 1

    @abstractmethod
    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        """Two numbers for each sentence: counted, countable."""

    def _preprocess_segment(self, sent: str) -> str:
        return sent.strip().lower() if self.lowercase else sent.strip()

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> Counts:
        """All sentences at once, where sacreBLEU goes one by one."""
        if not references or len(references) != 1:
            raise ValueError(f"{self.title} needs exactly one reference for each sentence")
        return self.count(
            [self._preprocess_segment(text) for text in hypotheses],
            [self._preprocess_segment(text) for text in references[0]],
        )

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"reference": refs[0]}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return self.count([hypothesis], [ref_kwargs["reference"]])[0]

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> SacreScore:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: Sequence[float] | np.ndarray) -> SacreScore:
        counted, countable = float(stats[0]), float(stats[1])
        share = counted / countable if countable > 0 else float(counted > 0)
        return SacreScore(self.title, 100 * share)


class ExactMatch(Ratio):
    """The share of sentences that are right in every character."""

    def __init__(self, lowercase: bool = False) -> None:
        super().__init__("exact", "sentence", lowercase)

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        return [[float(said == meant), 1.0] for said, meant in zip(hypotheses, references, strict=True)]


class ErrorRate(Ratio):
    """Edits needed to turn the output into the reference, over the reference's length."""

    def __init__(self, title: str, unit: str, split: Split, lowercase: bool = False) -> None:
        super().__init__(title, unit, lowercase)
        self.split = split

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        said, meant = ([self.split(text) for text in texts] for texts in (hypotheses, references))
        edits = edit_distances(said, meant)
        return [[float(wrong), float(len(right))] for wrong, right in zip(edits, meant, strict=True)]
