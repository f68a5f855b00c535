"""Batches made in the background: in order, not too far ahead, with errors told and threads ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from headway.data.prefetch import Prefetch


@dataclass
class Thing:
    number: int
    pinned: bool = False

    def pin_memory(self) -> Thing:
        return Thing(self.number, pinned=True)


@dataclass
class Source:
    """Counts what was asked of it, and fails or ends at `stop`."""

    stop: int
    error: BaseException | None = None
    made: int = 0
    closed: threading.Event = field(default_factory=threading.Event)

    def things(self) -> Iterator[Thing]:
        try:
            while self.made < self.stop:
                self.made += 1
                yield Thing(self.made)
            if self.error is not None:
                raise self.error
        finally:
            self.closed.set()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true() and time.monotonic() < deadline:
        time.sleep(0.002)
    assert true()


@pytest.mark.parametrize("depth", [1, 2, 50])
@pytest.mark.parametrize("pin", [False, True])
def test_items_arrive_in_order_and_then_end(depth: int, pin: bool) -> None:
    source = Source(20)
    with Prefetch(source.things(), depth, pin) as ahead:
        assert list(ahead) == [Thing(number, pin) for number in range(1, 21)]
        assert list(ahead) == []


def test_never_more_than_depth_ahead() -> None:
    source = Source(1000)
    with Prefetch(source.things(), 3, pin=False) as ahead:
        for taken in range(10):
            wait_until(lambda taken=taken: source.made == taken + 3)
            time.sleep(0.005)
            assert source.made == taken + 3
            assert next(ahead).number == taken + 1


def test_an_error_is_raised_where_its_item_would_be() -> None:
    source = Source(2, ValueError("line 17"))
    with Prefetch(source.things(), 10, pin=False) as ahead:
        assert [next(ahead).number, next(ahead).number] == [1, 2]
        with pytest.raises(ValueError, match="line 17"):
            next(ahead)
        with pytest.raises(StopIteration):
            next(ahead)


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_closing_early_ends_thread_and_iterator(taken: int) -> None:
    source = Source(10**9)
    ahead = Prefetch(source.things(), 2, pin=False)
    for _ in range(taken):
        next(ahead)
    ahead.close()
    ahead.close()
    assert source.closed.is_set() or source.made == 0  # what never began need not be closed
    with pytest.raises(StopIteration):
        next(ahead)


def test_an_error_of_the_consumer_ends_the_thread_too() -> None:
    source = Source(10**9)
    with pytest.raises(ZeroDivisionError), Prefetch(source.things(), 2, pin=False):
        raise ZeroDivisionError
    wait_until(lambda: source.closed.is_set() or source.made == 0)
