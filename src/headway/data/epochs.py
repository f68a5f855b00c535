"""Batches without end, window after window, shared between ranks; any step can be resumed from."""

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
    """Some examples in memory, and which of them share a batch."""

    @property
    def examples(self) -> Integer[np.ndarray, " n"]: ...

    @property
    def plan(self) -> Plan: ...

    def batch(self, number: int, cursor: Cursor) -> B: ...


class Slot(NamedTuple):
    """One place in the order of all batches."""

    window: Any
    number: int
    after: Cursor


class Rounds(Generic[B]):
    """All batches of all epochs. Of every `world` batches in a row, each rank takes its own.

    A row may begin in one window and end in the next, so no batch is left out or seen twice. Two ranks see at
    each step what one rank sees in two, and a cursor is good for any number of ranks.
    """

    def __init__(self, order: Order, window: Callable[[Cursor], Window[B]], rank: int = 0, world: int = 1) -> None:
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} of {world}: ranks count from 0")
        self.order, self.make, self.rank, self.world = order, window, rank, world
        self.batches_in: dict[tuple[int, int], int] = {}  # of the windows made so far, by epoch and number

    def iterate(self, cursor: Cursor) -> Generator[B]:
        """Batches without end, from the cursor on."""
        with closing(self._slots(cursor)) as slots:
            while True:
                step = list(islice(slots, self.world))
                own = step[self.rank]
                yield own.window.batch(own.number, step[-1].after)

    def count(self, epoch: int) -> int:
        """How many batches an epoch has, of all ranks: exact if it has one window, else estimated by the first."""
        if self.order.windows_in(epoch) == 0:
            return 0
        window = self._window(Cursor(epoch))
        return round(len(window.plan) * self.order.examples_in(epoch) / len(window.examples))

    def passed(self, cursor: Cursor) -> float:
        """How many times the batches before the cursor go through the corpus."""
        inside = cursor.batch / max(1, self.batches_in.get((cursor.epoch, cursor.window), 1))
        return cursor.epoch + (cursor.window + inside) / max(1, self.order.windows_in(cursor.epoch))

    def _slots(self, cursor: Cursor) -> Generator[Slot]:
        """The order of all batches. While one window is used, the next is made."""
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
