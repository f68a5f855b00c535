"""No positions: attention then sees a set, not a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.model.positions.base import Positions
from headway.model.size import Size


@dataclass(frozen=True)
class NoPositions:
    """The model cannot tell orders apart, except through a causal mask."""

    kind: Literal["none"] = "none"

    def build(self, size: Size) -> Positions:
        return Positions()
