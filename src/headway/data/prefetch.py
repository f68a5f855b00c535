"""Prepare batches in a background thread, so that training does not wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from threading import Semaphore, Thread
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class Pinnable(Protocol):
    """An item that can be moved to page-locked memory."""

    def pin_memory(self) -> Any: ...


Item = TypeVar("Item", bound=Pinnable)


class Failure:
    """An error of the background thread, to be raised in the foreground."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Prefetch(Generic[Item]):
    """Run an iterator in a thread, at most `depth` items ahead. Close it, or use it in a `with` statement."""

    def __init__(self, iterator: Iterator[Item], depth: int, pin: bool) -> None:
        self._iterator = iterator
        self._pin = pin
        self._room = Semaphore(depth)
        self._ready: SimpleQueue[Item | Failure] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._work, name="prefetch", daemon=True)
        self._thread.start()

    def __iter__(self) -> Prefetch[Item]:
        return self

    def __next__(self) -> Item:
        if self._closed:
            raise StopIteration
        item = self._ready.get()
        if isinstance(item, Failure):
            self.close()
            raise item.error
        self._room.release()
        return item

    def __enter__(self) -> Prefetch[Item]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread, and discard the items it has prepared."""
        self._closed = True
        self._room.release()
        self._thread.join()

    def _work(self) -> None:
        try:
            while self._room.acquire() and not self._closed:
                item = next(self._iterator)
                self._ready.put(item.pin_memory() if self._pin else item)
        except BaseException as error:  # also StopIteration, the end of the iterator
            self._ready.put(Failure(error))
        finally:
            close = getattr(self._iterator, "close", None)
            if close is not None:
                close()
