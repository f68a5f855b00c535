"""CUDA graphs: work that is recorded once and repeated on the same tensors."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import torch

ONE_AT_A_TIME = Lock()  # all recordings of a process share a stream and an allocator


@runtime_checkable
class Graph(Protocol):
    """A `torch.cuda.CUDAGraph`, or what stands for one where there is no GPU."""

    def replay(self) -> None: ...


@contextmanager
def record_onto(graph: torch.cuda.CUDAGraph, pool: Any) -> Generator[None]:
    """Record what this thread launches. Nothing old is thrown away meanwhile: a graph that dies spoils the record."""
    with ONE_AT_A_TIME:
        collecting = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                yield
        finally:
            if collecting:
                gc.enable()
