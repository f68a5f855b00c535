"""chrF and TER in plain floats: sacreBLEU's interval fails where a resample's 0.0 meets numpy's float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.chrf import CHRF, CHRFScore
from sacrebleu.metrics.ter import TER, TERScore

Stats = Sequence[int | float] | np.ndarray


class PlainChrf(CHRF):
    """chrF, the same numbers."""

    def _compute_score_from_stats(self, stats: Stats) -> CHRFScore:
        return super()._compute_score_from_stats([float(count) for count in stats])  # pyright: ignore[reportArgumentType]


class PlainTer(TER):
    """TER, the same numbers."""

    def _compute_score_from_stats(self, stats: Stats) -> TERScore:
        return super()._compute_score_from_stats([float(count) for count in stats])
