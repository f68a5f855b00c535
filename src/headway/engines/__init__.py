"""Ways to run a trained model: the model itself, a kernel compiled for this machine, or CTranslate2."""

from __future__ import annotations

from headway.engines.base import Engine, Unavailable
from headway.engines.batches import spread, translate_all
from headway.engines.choice import Chosen, choose

__all__ = ["Chosen", "Engine", "Unavailable", "choose", "spread", "translate_all"]
