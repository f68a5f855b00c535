"""Read and write tokeniser files, with a size limit and one-line errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.storage.files import disk_trouble

LARGEST = 64 * 2**20  # bytes; a vocabulary of a million pieces needs about 25 MB
ENTRIES = 4 << 20  # most entries of a JSON file; in memory an entry takes about 100 times its bytes on disk


def read(path: Path) -> bytes:
    """Return the bytes of a tokeniser file; UsageError if it cannot be read or is larger than LARGEST bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST:
        raise UsageError(f"{path}: larger than {LARGEST >> 20} MB, which no tokeniser file is; give another file")
    return data


def parse_json(data: bytes) -> Any:
    """Return the value of untrusted JSON; ValueError, before parsing, if it has more than ENTRIES entries."""
    entries = sum(data.count(sign) for sign in (b",", b"[", b"{"))
    if entries > ENTRIES:
        raise ValueError(f"it has {entries:,} entries; at most {ENTRIES:,} are allowed")
    return json.loads(data.decode("utf-8"))


def write(path: Path, data: bytes) -> None:
    """Write a tokeniser file; a full disk is reported in one line."""
    with disk_trouble(path, len(data)):
        path.write_bytes(data)
