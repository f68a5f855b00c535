"""Metrics that sacreBLEU lacks, as subclasses of its Metric, so that it resamples and signs them like its own."""

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
    """A signature with the unit that was counted and the version of headway."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)  # pyright: ignore[reportUnknownMemberType] (sacreBLEU has no types)
        self._abbr |= {"unit": "u", "case": "c"}
        case = "lc" if args["lowercase"] else "mixed"
        facts = {"case": case, "unit": args["unit"], "version": f"headway-{installed('headway')}"}
        self.info |= facts  # pyright: ignore[reportUnknownMemberType]


class Ratio(Metric):
    """A percentage: the sum over sentences of what was counted over the sum of what could be counted."""

    _SIGNATURE_TYPE = RatioSignature

    def __init__(self, title: str, unit: str, lowercase: bool = False) -> None:
        super().__init__()
        self.title = title
        self.unit = unit
        self.lowercase = lowercase
        self.num_refs = 1

    @abstractmethod
    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        """Return two numbers for each sentence: what was counted, and what could be counted."""

    def _preprocess_segment(self, sent: str) -> str:
        return sent.strip().lower() if self.lowercase else sent.strip()

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> Counts:
        """Count all sentences at once, where sacreBLEU's own metrics count one by one."""
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
    """The percentage of sentences that equal their reference."""

    def __init__(self, lowercase: bool = False) -> None:
        super().__init__("exact", "sentence", lowercase)

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        return [[float(said == meant), 1.0] for said, meant in zip(hypotheses, references, strict=True)]


class ErrorRate(Ratio):
    """The edit distance between output and reference, over the length of the reference, in per cent."""

    def __init__(self, title: str, unit: str, split: Split, lowercase: bool = False) -> None:
        super().__init__(title, unit, lowercase)
        self.split = split

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        said, meant = ([self.split(text) for text in texts] for texts in (hypotheses, references))
        edits = edit_distances(said, meant)
        return [[float(wrong), float(len(right))] for wrong, right in zip(edits, meant, strict=True)]
