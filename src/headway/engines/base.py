"""The seam: an engine takes sentences as pieces and gives hypotheses back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from headway.search import Hypothesis, Search
from headway.search.logits_processors import Shape

Precision = Literal["fp32", "int8"]  # on processors


class Unavailable(Exception):
    """An engine cannot run here, or not this model: the reason in one line. Another engine takes over."""


@runtime_checkable
class Engine(Protocol):
    """A model that is ready to translate."""

    name: str  # native, ctranslate2, torch or cuda
    precision: str  # fp32, int8 or bf16
    workers: int  # batches worth working on at the same time, each in a thread of its own

    def translate(
        self, source: Int[Tensor, "b s"], search: Search, shapes: Sequence[Shape] = ()
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, the best first. May be called from several threads at once."""
        ...


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def user_cache() -> Path:
    """Where things are kept that can be made again."""
    chosen = os.environ.get("HEADWAY_CACHE")
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(root) / "headway"
