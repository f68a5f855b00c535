"""The seam: an engine takes sentences as pieces and gives hypotheses back, and says what it cannot do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from headway.model.design import Design
from headway.search import Beam, Greedy, Hypothesis, Search
from headway.search.logits_processors import LogitsProcessor

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
        self, source: Int[Tensor, "b s"], search: Search, logits_processors: Sequence[LogitsProcessor] = ()
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, the best first. May be called from several threads at once."""
        ...


@runtime_checkable
class Unsupported(Protocol):
    """Returns why an engine cannot run models of a design, or a search in its own code; None if it can.

    Without a search only the design is judged. A design that is not supported needs another engine; a search that is
    not supported runs in PyTorch, over the engine's steps or the model's, with the same results.
    """

    def __call__(
        self, design: Design, search: Search | None = None, logits_processors: Sequence[LogitsProcessor] = ()
    ) -> str | None: ...


def unsupported_search(search: Search | None, logits_processors: Sequence[LogitsProcessor]) -> str | None:
    """Why a search cannot run in an engine's own code: all of them know greedy and beam search alone."""
    if search is None:
        return None
    beam = as_beam(search)
    if beam is None:
        return f"{type(search).__name__} runs in PyTorch; an engine's own code knows greedy and beam search"
    if logits_processors:
        return "logits processors run in PyTorch"
    return "a minimum length is a logits processor, which runs in PyTorch" if beam.limits.has_minimum else None


def as_beam(search: Search) -> Beam | None:
    """The beam search that gives the same hypotheses: greedy search is a beam of one. None for other searches."""
    if isinstance(search, Greedy):
        return Beam(size=1, alpha=search.alpha, limits=search.limits)
    return search if isinstance(search, Beam) else None


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def user_cache() -> Path:
    """Where things are kept that can be made again."""
    chosen = os.environ.get("HEADWAY_CACHE")
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(root) / "headway"
