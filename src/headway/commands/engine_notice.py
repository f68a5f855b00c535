"""One line about the engine that runs a model, where there is something to say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.engines import Chosen


def say_engine(chosen: Chosen, asked: str) -> None:
    """Name the engine on standard error if the user asked for one by name or a faster one cannot be used."""
    if notice := chosen.notice(asked):
        print(f"headway: {notice}", file=sys.stderr)
