"""The log: one JSON object a line. Text of users only if that was asked for, control characters always escaped."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from io import TextIOBase
from pathlib import Path
from typing import Any


class Log:
    """Writes records to standard error."""

    def __init__(self, stream: TextIOBase | None = None) -> None:
        self.stream = stream or sys.stderr

    def write(self, level: str, **fields: Any) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        self.stream.write(json.dumps({"time": f"{stamp}Z", "level": level, **fields}) + "\n")  # ASCII only
        self.stream.flush()


class Passing(logging.Handler):
    """What libraries have to say, as records of ours; of an exception only its kind, as its words may hold a text."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        fault = {"fault": kind} if kind else {}
        self.log.write(record.levelname.lower(), event=record.getMessage().strip()[:200], **fault)


def listen_to_libraries(log: Log) -> None:
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [Passing(log)], False
        logger.setLevel(logging.WARNING)


def place(error: BaseException) -> str:
    """The kind of an error and where it arose: its own words may hold a user's text."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"
