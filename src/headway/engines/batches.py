"""Many sentences: sorted into batches, spread over workers, given back in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from headway.data.padding import packs, pad_rows
from headway.engines.base import Engine
from headway.search import Hypothesis, Search
from headway.search.logits_processors import LogitsProcessor

T = TypeVar("T")
R = TypeVar("R")

SENTENCES = 24  # of a batch on a processor: in its caches two dozen are faster than 64

ProcessorsOf = Callable[[Sequence[int]], Sequence[LogitsProcessor]]  # by the sentences of a batch


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
    logits_processors: ProcessorsOf | None = None,
    rows: int = SENTENCES,
    tokens: int = 8192,
) -> list[list[Hypothesis]]:
    """In batches of sentences of like length, at most `rows` of them and `tokens` pieces with their padding."""
    batches = list(packs([len(each) for each in sentences], tokens, rows))

    def translate(places: list[int]) -> list[list[Hypothesis]]:
        source = pad_rows([sentences[i] for i in places], "cpu")
        return engine.translate(source, search, logits_processors(places) if logits_processors else ())

    results: list[list[Hypothesis]] = [[] for _ in sentences]
    for places, outputs in zip(
        batches, spread(translate, batches, min(engine.workers, len(batches) or 1)), strict=True
    ):
        for place, output in zip(places, outputs, strict=True):
            results[place] = output
    return results
