"""The paper's positions: sines and cosines added to the embeddings (section 3.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from headway.model.functions import frequencies, sinusoid
from headway.model.positions.base import Pos, Positions
from headway.model.size import Size, check_range


class SinusoidalPositions(Positions):
    """PE(pos + k) is a fixed linear map of PE(pos); any length works."""

    relative: ClassVar[bool] = False

    def __init__(self, width: int, base: float) -> None:
        super().__init__()
        self.width, self.base = width, base

    def embed(self, x: Float[Tensor, "b t d"], pos: Pos) -> Float[Tensor, "b t d"]:
        return x + sinusoid(pos, frequencies(self.width, self.base, x.device)).to(x.dtype)


@dataclass(frozen=True)
class Sinusoidal:
    """Sines and cosines of the position, added once at the bottom."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    base: float = 10_000.0  # base of the wavelengths; the longest is 2 pi times the base

    def __post_init__(self) -> None:
        check_range("base", self.base, 1, 1e12)

    def build(self, size: Size) -> Positions:
        if size.width % 2:
            raise ValueError(f"width is {size.width}; sinusoidal positions need an even width")
        return SinusoidalPositions(size.width, self.base)
