"""Translated files that wait to be fetched: in a private folder, under names nobody can guess, for a while."""

from __future__ import annotations

import re
import secrets
import time
import weakref
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headway.serve.problems import NO_ROOM, Problem
from headway.storage import temporary

KEPT = 1800.0  # seconds
MOST_BYTES = 200_000_000  # of all files together; the oldest give way


@dataclass(frozen=True)
class ResultFile:
    path: Path
    title: str  # the name it is saved under by whoever fetches it
    size: int
    until: float


class ResultFiles:
    """A name in a request is looked up in a table; it never becomes part of a path."""

    def __init__(self, kept: float = KEPT, most: int = MOST_BYTES) -> None:
        self.kept, self.most = kept, most
        self.files: dict[str, ResultFile] = {}  # the oldest first

    @cached_property
    def folder(self) -> Path:
        """Made when it is first needed, only for us, and gone when we are."""
        owned = temporary.Folder("files")
        weakref.finalize(self, owned.remove)
        return owned.path

    def put(self, data: bytes, title: str, suffix: str) -> str:
        """Keep a file; the name to fetch it by. Problem 507 if there is no room for it."""
        self.tidy(len(data))
        name = f"{secrets.token_hex(16)}{suffix}"
        try:
            path = self.folder / name
            self.write(path, data)
        except OSError:
            raise Problem(507, NO_ROOM, 60) from None
        self.files[name] = ResultFile(path, safe_title(title), len(data), time.monotonic() + self.kept)
        return name

    def write(self, path: Path, data: bytes) -> None:
        """Half a file must not stay where there is no room for a whole one."""
        try:
            path.write_bytes(data)
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def get(self, name: str) -> ResultFile:
        self.tidy(0)
        if name not in self.files:
            raise Problem(404, "there is no such file, or it is no longer kept")
        return self.files[name]

    def tidy(self, coming: int) -> None:
        """Files go when their time is over, or when there is no room for what comes."""
        now, total = time.monotonic(), coming + sum(file.size for file in self.files.values())
        for name, file in list(self.files.items()):
            if file.until < now or total > self.most:
                file.path.unlink(missing_ok=True)
                del self.files[name]
                total -= file.size


def safe_title(title: str) -> str:
    """Letters, digits and a few signs: nothing that could mean something to a header or a shell."""
    return re.sub(r"[^\w.-]+", "_", title)[-100:].lstrip(".") or "file"
