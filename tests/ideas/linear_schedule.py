"""A straight line from the peak to zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Linear:
    """A straight line from the peak to zero."""

    kind: Literal["linear"] = "linear"

    def factor(self, step: int, total: int, width: int) -> float:
        return 1 - step / total
