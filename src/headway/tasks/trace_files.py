"""Traces of any task in files, in a terminal and as pictures. A trace names the kind of its task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from headway.errors import UsageError
from headway.inspection.trace_request import VERSION
from headway.storage.files import replace_text
from headway.tasks.run import TASKS

LARGEST = 1 << 26  # bytes; a trace of a long sentence with everything has about a tenth
REQUIRED: dict[str, type] = {"model": dict, "request": dict, "source": dict, "target": dict}


def as_json(trace: dict[str, Any]) -> str:
    """One line."""
    return json.dumps(trace, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def draw(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> RenderableType:
    """Return a trace for a terminal, with the attention of one layer (-1: the last) and one head (None: their mean)."""
    return TASKS[trace["kind"]].trace_view.draw(trace, layer, head)


def draw_picture(trace: dict[str, Any], path: Path, layer: int = -1, head: int | None = None) -> None:
    """Write a trace as a picture, with the attention of one layer and one head."""
    TASKS[trace["kind"]].trace_view.picture(trace, path, layer, head)


# ---------------------------------------------------------------- files


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
    return check_trace(found, str(path))


def check_trace(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict) or "version" not in found:
        raise UsageError(f"{where}: not a trace; give a file of headway look --json")
    if found["version"] != VERSION:
        raise UsageError(
            f"{where}: a trace of version {found['version']!r}; this headway reads {VERSION}: make it again"
        )
    kind = found.get("kind")
    if not isinstance(kind, str) or kind not in TASKS:
        raise UsageError(f"{where}: a trace of {kind!r}; this headway draws {', '.join(TASKS)}")
    required = {**REQUIRED, **TASKS[kind].trace_view.required}
    wrong = [name for name, needed in required.items() if not isinstance(found.get(name), needed)]
    if wrong:
        raise UsageError(f"{where}: not a whole trace, {wrong[0]} is missing; make it again")
    return found
