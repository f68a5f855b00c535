"""Tables in JSON that show it when a byte of them was changed."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def render(table: dict[str, Any]) -> bytes:
    """One table, one text: so that a changed byte is seen even where JSON would not mind."""
    return (json.dumps(table, indent=1, sort_keys=True) + "\n").encode()


def sealed(table: dict[str, Any]) -> bytes:
    """The table as text, with a checksum of itself."""
    return render(table | {"seal": hashlib.sha256(render(table)).hexdigest()})


def unsealed(text: bytes) -> dict[str, Any]:
    """The table that was sealed; ValueError where the text is not what `sealed` wrote."""
    table = json.loads(text)
    if not isinstance(table, dict) or table.pop("seal", None) is None or sealed(table) != text:
        raise ValueError("its list of files was changed")
    return table
