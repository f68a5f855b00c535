"""JSON files with a checksum of themselves, which detects changed bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def render(table: dict[str, Any]) -> bytes:
    """Return the canonical JSON text of a table; equal tables give equal bytes."""
    return (json.dumps(table, indent=1, sort_keys=True) + "\n").encode()


def sealed(table: dict[str, Any]) -> bytes:
    """Return the JSON text of a table with a checksum."""
    return render(table | {"seal": hashlib.sha256(render(table)).hexdigest()})


def unsealed(text: bytes) -> dict[str, Any]:
    """Return the table of a text that `sealed` wrote; ValueError if any byte differs."""
    table = json.loads(text)
    if not isinstance(table, dict) or table.pop("seal", None) is None or sealed(table) != text:
        raise ValueError("its checksum is wrong")
    return table
