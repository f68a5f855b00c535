"""An engine whose work can be ended between two batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxtyping import Int
from torch import Tensor

from headway.engines.base import Engine
from headway.search import Hypothesis, Search
from headway.search.logits_processors import LogitsProcessor


class Attended:
    """An engine that calls `check` before each batch; what it raises ends the work."""

    def __init__(self, engine: Engine, check: Callable[[], None]) -> None:
        self.engine, self.check = engine, check
        self.name, self.precision, self.workers = engine.name, engine.precision, engine.workers

    def translate(
        self, source: Int[Tensor, "b s"], search: Search, logits_processors: Sequence[LogitsProcessor] = ()
    ) -> list[list[Hypothesis]]:
        self.check()
        return self.engine.translate(source, search, logits_processors)
