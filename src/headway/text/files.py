"""Read and write the files of a tokeniser, with a size limit and errors in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.storage.files import disk_trouble

LARGEST = 64 * 2**20  # bytes; a vocabulary of a million pieces needs about 25 MB
ENTRIES = 4 << 20  # of a JSON file; each takes a hundred times its bytes in memory


def read(path: Path) -> bytes:
    """The whole file, unless it is too large to be a tokeniser."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST:
        raise UsageError(f"{path}: larger than {LARGEST >> 20} MB, so not a tokeniser; give another file")
    return data


def parse_json(data: bytes) -> Any:
    """JSON of unknown origin; ValueError, before anything is allocated, if it would take far more memory than bytes."""
    entries = sum(data.count(sign) for sign in (b",", b"[", b"{"))
    if entries > ENTRIES:
        raise ValueError(f"it has {entries:,} entries, at most {ENTRIES:,} are allowed")
    return json.loads(data.decode("utf-8"))


def write(path: Path, data: bytes) -> None:
    with disk_trouble(path, len(data)):
        path.write_bytes(data)
