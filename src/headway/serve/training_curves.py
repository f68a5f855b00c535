"""A training log as a page can show it: read to a limit, thinned out where there is much."""

from __future__ import annotations

import asyncio
import json
import math
import re
from pathlib import Path
from typing import Any

from headway.serve.problems import DEEPEST_JSON, too_deep

_PLACE = re.compile(r"(?<![\w.~/\\<>-])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\<>]+[/\\])+(?=[^\s/\\])")  # folders of a file
LARGEST = 8 << 20  # bytes that are read
MOST = 1000  # events of one kind


async def curves(folder: Path) -> list[dict[str, Any]]:
    """The events of a model folder's metrics.jsonl, in order; none if it has no such file."""
    return await asyncio.to_thread(read, folder / "metrics.jsonl")


def read(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    with path.open("rb") as file:
        lines = file.read(LARGEST).splitlines()
    events = [event for line in lines if (event := parsed(line))]
    kept = {id(event) for kind in {event["event"] for event in events} for event in thinned(events, kind)}
    return [event for event in events if id(event) in kept]


def parsed(line: bytes) -> dict[str, Any] | None:
    """None for a line that was cut, or that nobody could read."""
    try:
        event = json.loads(line, parse_constant=lambda _: None, parse_float=finite)
        if not isinstance(event, dict) or not isinstance(event.get("event"), str) or too_deep(event, DEEPEST_JSON):
            return None
        json.dumps(event, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return without_places(event)


def finite(text: str) -> float | None:
    return number if math.isfinite(number := float(text)) else None


def without_places(value: Any) -> Any:
    """The same, with the names of files and folders but not where they lie."""
    if isinstance(value, dict):
        return {without_places(name): without_places(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_places(inner) for inner in value]
    return _PLACE.sub("", value) if isinstance(value, str) else value


def thinned(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Every n-th, and always the last."""
    same = [event for event in events if event["event"] == kind]
    step = -(-len(same) // MOST)
    return same[::-1][::step]
