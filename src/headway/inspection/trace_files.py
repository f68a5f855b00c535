"""Traces in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.inspection.trace_request import VERSION
from headway.storage.files import replace_text

LARGEST = 1 << 26  # bytes; a trace of a long sentence with everything has about a tenth
NEEDED: dict[str, type] = {"model": dict, "request": dict, "source": dict, "target": dict}
KINDS: dict[str, dict[str, type]] = {  # what else a trace of each kind holds
    "translation": {"alternatives": list},
    "tagging": {"words": list},
    "classification": {"classes": list, "pooling": list},
    "language_model": {"memory": dict},
}


def as_json(trace: dict[str, Any]) -> str:
    """One line."""
    return json.dumps(trace, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def save_trace(trace: dict[str, Any], path: Path) -> None:
    """Write the file whole or not at all."""
    replace_text(path, as_json(trace) + "\n")


def read_trace(path: Path) -> dict[str, Any]:
    """A trace that was saved; other files are refused."""
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path}: larger than any trace ({LARGEST >> 20} MiB); give a file of headway look --json")
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not a trace, or several; give one, as headway look --json writes it") from None
    return checked(found, str(path))


def checked(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict) or "version" not in found:
        raise UsageError(f"{where}: not a trace; give a file of headway look --json")
    if found["version"] != VERSION:
        raise UsageError(
            f"{where}: a trace of version {found['version']!r}; this headway reads {VERSION}: make it again"
        )
    kind = found.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise UsageError(f"{where}: a trace of {kind!r}; this headway draws {', '.join(KINDS)}")
    wrong = [name for name, needed in (NEEDED | KINDS[kind]).items() if not isinstance(found.get(name), needed)]
    if wrong:
        raise UsageError(f"{where}: not a whole trace, {wrong[0]} is missing; make it again")
    return found
