"""Turn queries and keys by an angle that grows with position (Su et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from headway.model.functions import frequencies, rotate
from headway.model.positions.base import Heads, Pos, Positions
from headway.model.size import Size, check_range


class RotaryPositions(Positions):
    """The dot product of two turned vectors depends on the difference of their angles alone."""

    rotates: ClassVar[bool] = True

    def __init__(self, head_width: int, base: float) -> None:
        super().__init__()
        self.head_width, self.base = head_width, base

    def rotate(self, heads: Heads, pos: Pos) -> Heads:
        rates = frequencies(self.head_width, self.base, heads.device)
        return rotate(heads, pos[..., None] * rates)


@dataclass(frozen=True)
class Rotary:
    """Rotary positions, LLaMA's."""

    kind: Literal["rotary"] = "rotary"
    base: float = 10_000.0  # base of the angles' wavelengths; a higher base has longer ones

    def __post_init__(self) -> None:
        check_range("base", self.base, 1, 1e12)

    def build(self, size: Size) -> Positions:
        if size.head_width % 2:
            raise ValueError(f"head width is {size.head_width}; rotary positions need an even one")
        return RotaryPositions(size.head_width, self.base)
