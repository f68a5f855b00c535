"""The log: one JSON object a line. Text of users only if that was asked for, control characters always escaped.

Writing a record never waits: a thread passes the lines on, and what does not fit into its queue is dropped and counted.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

MOST_BYTES = 4 << 20  # of lines that wait to be written
FAREWELL = 1.0  # seconds in which the last lines are written when the server ends
LONGEST_EVENT = 300  # characters of what others have to say
MOST_A_SECOND = 10  # records of one repeated kind


@runtime_checkable
class Sink(Protocol):
    """Takes lines."""

    def write(self, text: str, /) -> Any: ...


class Unblocking:
    """Lines to a file descriptor from a thread of their own.

    Whoever reads the log may be slow, stand still or be gone: lines that do not fit or cannot be written are dropped
    and counted, and the number stands in the log as soon as it can be written again.
    """

    def __init__(self, file: int, most: int = MOST_BYTES) -> None:
        self.file, self.most = file, most
        self.lines: deque[bytes] = deque()
        self.held = self.dropped = self.reported = 0  # bytes that wait; lines
        self.closing = False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.pass_on, name="log", daemon=True)
        self.thread.start()

    def write(self, text: str) -> None:
        """Queue a line. Never waits for the reader."""
        line = text.encode("utf-8", "backslashreplace")
        with self.changed:
            if self.held + len(line) > self.most:
                self.dropped += 1
                return
            self.lines.append(line)
            self.held += len(line)
            self.changed.notify()

    def close(self) -> None:
        """Write what waits, if that is quickly done."""
        with self.changed:
            self.closing = True
            self.changed.notify()
        self.thread.join(FAREWELL)
        if not self.thread.is_alive():
            os.close(self.file)

    def pass_on(self) -> None:
        while (line := self.next()) is not None:
            if not self.written(line):
                with self.changed:
                    self.dropped += 1
            elif self.dropped > self.reported:
                self.report()

    def next(self) -> bytes | None:
        with self.changed:
            while not self.lines and not self.closing:
                self.changed.wait()
            return self.lines[0] if self.lines else None

    def written(self, line: bytes) -> bool:
        """The line counts as waiting until it is written, so that a reader who stands still holds no more than that."""
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self.file, rest) :]
        except OSError:
            return False
        finally:
            with self.changed:
                self.held -= len(self.lines.popleft())
        return True

    def report(self) -> None:
        dropped = self.dropped
        line = record("warning", {"event": "records of the log were dropped", "dropped": dropped - self.reported})
        try:
            os.write(self.file, line.encode())
            self.reported = dropped
        except OSError:
            return


def standard_error() -> Unblocking:
    """A descriptor of our own for standard error; where that is closed, its number may belong to something else."""
    return Unblocking(os.open(os.devnull, os.O_WRONLY) if sys.__stderr__ is None else os.dup(2))


class Log:
    """Writes records to a sink."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, level: str, **fields: Any) -> None:
        self.sink.write(record(level, fields))

    @property
    def dropped(self) -> int:
        return getattr(self.sink, "dropped", 0)


def record(level: str, fields: dict[str, Any]) -> str:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    return json.dumps({"time": f"{stamp}Z", "level": level, **fields}) + "\n"  # ASCII only


class Sparse:
    """Passes on a few records a second, and then how many were left out: a flood of requests is no flood of records."""

    def __init__(self, log: Log, event: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.log, self.event, self.clock = log, event, clock
        self.second, self.count, self.left_out = 0, 0, 0

    def write(self, level: str, **fields: Any) -> None:
        self.settle()
        self.count += 1
        if self.count <= MOST_A_SECOND:
            self.log.write(level, **fields)
        else:
            self.left_out += 1

    def settle(self) -> None:
        """Report what was left out in a second that is over."""
        if (now := int(self.clock())) == self.second:
            return
        if self.left_out:
            self.log.write("warning", event=self.event, left_out=self.left_out)
        self.second, self.count, self.left_out = now, 0, 0


class Passing(logging.Handler):
    """What libraries have to say, as records of ours; of an exception only its kind, as its words may hold a text."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.log = Sparse(log, "more messages of libraries")

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        fault = {"fault": kind} if kind else {}
        self.log.write(record.levelname.lower(), event=printable(record.getMessage()).strip()[:LONGEST_EVENT], **fault)


class Printed(io.TextIOBase):
    """What is printed to standard error by anybody in this process, as records of ours."""

    def __init__(self, log: Log) -> None:
        self.log = Sparse(log, "more lines on standard error")

    def write(self, text: str, /) -> int:
        for line in filter(str.strip, text.splitlines()):
            self.log.write("warning", event=printable(line).strip()[:LONGEST_EVENT])
        return len(text)


def listen_to_libraries(log: Log) -> None:
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [Passing(log)], False
        logger.setLevel(logging.WARNING)


def place(error: BaseException) -> str:
    """The kind of an error and where it arose: its own words may hold a user's text."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"


def printable(text: str) -> str:
    """Without control characters: a terminal that shows the text must not obey it."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
