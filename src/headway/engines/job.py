"""Many sentences: sorted into batches, spread over workers, given back in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from headway.engines.base import Engine
from headway.search import Hypothesis, Search
from headway.search.shaping import Shape
from headway.text.vocabulary import PAD

T = TypeVar("T")
R = TypeVar("R")

Shapes = Callable[[Sequence[int]], Sequence[Shape]]  # from the places of a batch's sentences to its shapes


def spread(act: Callable[[T], R], jobs: Iterable[T], workers: int) -> Iterator[R]:
    """The results of all jobs, in their order; so many jobs at once. Jobs are drawn as they are needed."""
    if workers == 1:
        yield from map(act, jobs)
        return
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers, "headway") as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(act, job))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()


def translate_all(
    engine: Engine,
    sentences: Sequence[Sequence[int]],
    search: Search,
    shapes: Shapes | None = None,
    batch: int = 64,
    tokens: int = 8192,
) -> list[list[Hypothesis]]:
    """Batches of sentences of like length: at most `batch` of them, and `tokens` pieces with their padding."""
    batches = list(in_batches([len(each) for each in sentences], batch, tokens))

    def translate(places: list[int]) -> list[list[Hypothesis]]:
        return engine.translate(padded([sentences[i] for i in places]), search, shapes(places) if shapes else ())

    results: list[list[Hypothesis]] = [[] for _ in sentences]
    for places, outputs in zip(
        batches, spread(translate, batches, min(engine.workers, len(batches) or 1)), strict=True
    ):
        for place, output in zip(places, outputs, strict=True):
            results[place] = output
    return results


def in_batches(lengths: Sequence[int], batch: int, tokens: int) -> Iterator[list[int]]:
    """Places of sentences, the longest first: a worker that comes last then has little left to do."""
    batch_now: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        full = len(batch_now) == batch or (batch_now and lengths[batch_now[0]] * (len(batch_now) + 1) > tokens)
        if full:
            yield batch_now
            batch_now = []
        batch_now.append(place)
    if batch_now:
        yield batch_now


def padded(sentences: Sequence[Sequence[int]]) -> Int[Tensor, "b s"]:
    longest = max(map(len, sentences))
    return torch.tensor([[*each, *[PAD] * (longest - len(each))] for each in sentences], dtype=torch.long)
