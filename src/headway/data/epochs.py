"""An endless sequence of batches over epochs, divided between ranks, that can be resumed at any step."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Integer

from headway.data.bucketing import Plan
from headway.data.order import Cursor, Order

B = TypeVar("B", covariant=True)


@runtime_checkable
class Window(Protocol[B]):
    """A part of an epoch in memory: examples, and how they are divided into batches."""

    @property
    def examples(self) -> Integer[np.ndarray, " n"]: ...

    @property
    def plan(self) -> Plan: ...

    def batch(self, number: int, cursor: Cursor) -> B: ...


class Slot(NamedTuple):
    """One batch in the global order: its window, its number there, and the cursor after it."""

    window: Any
    number: int
    after: Cursor


class Rounds(Generic[B]):
    """All batches of all epochs. Of every `world` consecutive batches, each rank takes one.

    These may span two windows, so no batch is skipped or repeated. Two ranks see in one step what one rank sees
    in two, and a cursor is valid for any number of ranks.
    """

    def __init__(self, order: Order, window: Callable[[Cursor], Window[B]], rank: int = 0, world: int = 1) -> None:
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} of {world}: ranks count from 0")
        self.order, self.make, self.rank, self.world = order, window, rank, world
        self.batches_in: dict[tuple[int, int], int] = {}  # (epoch, window) -> batches, for windows made so far

    def iterate(self, cursor: Cursor) -> Generator[B]:
        """Yield this rank's batches from the cursor on, without end."""
        with closing(self._slots(cursor)) as slots:
            while True:
                step = list(islice(slots, self.world))
                own = step[self.rank]
                yield own.window.batch(own.number, step[-1].after)

    def count(self, epoch: int) -> int:
        """Return the number of batches of an epoch over all ranks: exact for one window, else an estimate."""
        if self.order.windows_in(epoch) == 0:
            return 0
        window = self._window(Cursor(epoch))
        return round(len(window.plan) * self.order.examples_in(epoch) / len(window.examples))

    def passed(self, cursor: Cursor) -> float:
        """Return how many epochs precede the cursor, as a fraction."""
        inside = cursor.batch / max(1, self.batches_in.get((cursor.epoch, cursor.window), 1))
        return cursor.epoch + (cursor.window + inside) / max(1, self.order.windows_in(cursor.epoch))

    def _slots(self, cursor: Cursor) -> Generator[Slot]:
        """Yield all batches in order. The next window is prepared in a thread."""
        here = self.order.settle(cursor)
        with ThreadPoolExecutor(1, "windows") as ahead:
            coming = ahead.submit(self._window, here)
            while True:
                window, following = coming.result(), self.order.after(here)
                coming = ahead.submit(self._window, following)
                for number in range(here.batch, len(window.plan)):
                    last = number + 1 == len(window.plan)
                    yield Slot(window, number, following if last else replace(here, batch=number + 1))
                here = following

    def _window(self, cursor: Cursor) -> Window[B]:
        window = self.make(cursor)
        self.batches_in[cursor.epoch, cursor.window] = len(window.plan)
        return window
