"""Which model it is that was opened: a hash of its folder's files, as its description lists them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headway.errors import UsageError
from headway.storage.folder import CONFIG, FACTS

TRIES = 5
Model = TypeVar("Model")


def open_same(folder: Path, opened: Callable[[Path], Model]) -> tuple[Model, str]:
    """A model and the fingerprint of the files it was read from, also if they are exchanged meanwhile."""
    for _ in range(TRIES):
        before = fingerprint(folder)
        model = opened(folder)
        if fingerprint(folder) == before:
            return model, before
    raise UsageError(f"{folder} is exchanged again and again while it is read; open it when it is at rest")


def fingerprint(folder: Path) -> str:
    """SHA-256 of the list of files with their own hashes, and of the configuration, which may be edited."""
    try:
        files = json.loads((folder / FACTS).read_bytes())["files"]
        listed = json.dumps({name: entry["sha256"] for name, entry in files.items()}, sort_keys=True)
        return hashlib.sha256(listed.encode() + b"\0" + (folder / CONFIG).read_bytes()).hexdigest()
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""  # what is wrong with the folder is told when it is opened
