"""metrics.jsonl: one line an event, never torn, never with a step twice."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from headway.training import files
from headway.training.events import Event

NAME = "metrics.jsonl"


class Log:
    """Appends events. On a resume, what lies after the checkpoint is forgotten: it will happen again."""

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / NAME
        if self.path.exists():
            kept = [line for line in self.path.read_bytes().split(b"\n") if belongs(line, step)]
            with files.disk_trouble(self.path, 0):
                files.replace(self.path, b"".join(line + b"\n" for line in kept))
        with files.disk_trouble(self.path, 0):
            self.stream = self.path.open("ab", buffering=0)

    def add(self, event: Event) -> None:
        """One write a line: a killed process leaves whole lines, and at most one torn one."""
        line = json.dumps(event.line(time.time()), ensure_ascii=False) + "\n"
        with files.disk_trouble(self.path, len(line)):
            self.stream.write(line.encode("utf-8", "replace"))

    def __enter__(self) -> Self:
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
