"""Stop politely: once training has begun the first signal asks for a checkpoint; the second ends at once."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType

from headway.errors import STOPPED_BY_SIGINT, STOPPED_BY_SIGTERM

CODES = {
    signal.SIGINT: STOPPED_BY_SIGINT,
    signal.SIGTERM: STOPPED_BY_SIGTERM,
    **({signal.SIGUSR1: STOPPED_BY_SIGTERM} if hasattr(signal, "SIGUSR1") else {}),
}


class StopRequest:
    """Truthy once a signal has come. Until there is something to save, a signal ends the program as it always does."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, object] = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def name(self) -> str:
        return self.signal.name.lower() if self.signal else ""

    @property
    def exit_code(self) -> int:
        return CODES[self.signal] if self.signal else 0

    def begin(self) -> None:
        """From now on a signal waits for the end of a step. A library's own waiting could not hear us before that."""
        for number in CODES:
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError:  # not in the main thread: the embedding program handles signals
                break

    def __enter__(self) -> StopRequest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            os._exit(CODES[self.signal])
        self.signal = signal.Signals(number)
