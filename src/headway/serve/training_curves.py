"""A training log as a page can show it: read to a limit, thinned out where there is much."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

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
    """None for a line that was cut."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def thinned(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Every n-th, and always the last."""
    same = [event for event in events if event["event"] == kind]
    step = -(-len(same) // MOST)
    return same[::-1][::step]
