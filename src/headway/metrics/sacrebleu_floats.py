"""chrF and TER with Python floats: sacreBLEU's interval fails if a resample mixes 0.0 with NumPy's float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.chrf import CHRF, CHRFScore
from sacrebleu.metrics.ter import TER, TERScore

Stats = Sequence[int | float] | np.ndarray


class PlainChrf(CHRF):
    """sacreBLEU's chrF, computed with Python floats."""

    def _compute_score_from_stats(self, stats: Stats) -> CHRFScore:
        return super()._compute_score_from_stats([float(count) for count in stats])  # pyright: ignore[reportArgumentType]


class PlainTer(TER):
    """sacreBLEU's TER, computed with Python floats."""

    def _compute_score_from_stats(self, stats: Stats) -> TERScore:
        return super()._compute_score_from_stats([float(count) for count in stats])
