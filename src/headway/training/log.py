"""metrics.jsonl: one line an event, never torn, never with a step twice."""

from __future__ import annotations

import errno
import json
import os
import time
from io import FileIO
from pathlib import Path
from types import TracebackType

from headway.storage import files
from headway.training.events import Event

NAME = "metrics.jsonl"


class Log:
    """Appends events. When a run goes back to an earlier step, what came after it is forgotten: it happens again."""

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / NAME
        self.step = step
        self.stream = self.rewind(step)

    def rewind(self, step: int) -> FileIO:
        """Keep the lines up to this step, and begin after them."""
        with files.disk_trouble(self.path, 0):
            if self.path.exists():
                kept = [line for line in self.path.read_bytes().split(b"\n") if belongs(line, step)]
                files.replace(self.path, b"".join(line + b"\n" for line in kept))
            return self.path.open("ab", buffering=0)

    def add(self, event: Event) -> None:
        """One write a line, made durable: a checkpoint is never ahead of its log."""
        if event.step < self.step:
            self.stream.close()
            self.stream = self.rewind(event.step)
        self.step = event.step
        line = (json.dumps(event.line(time.time()), ensure_ascii=False) + "\n").encode("utf-8", "replace")
        with files.disk_trouble(self.path, len(line)):
            if self.stream.write(line) != len(line):  # a disk that is full takes less than it is given
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self.stream.fileno())

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()


def belongs(line: bytes, step: int) -> bool:
    """Whole, and no later than the step the run goes on from. The end of an earlier start is forgotten too."""
    try:
        facts = json.loads(line)
    except ValueError:
        return False
    return isinstance(facts, dict) and facts.get("event") not in ("end", "plan") and facts.get("step", 0) <= step
