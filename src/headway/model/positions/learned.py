"""A learned vector for every position, added to the embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from headway.model.positions.base import Pos, Positions
from headway.model.size import Size


class LearnedPositions(Positions):
    """As good as sinusoids on trained lengths (table 3, row E), and blind beyond them."""

    relative: ClassVar[bool] = False

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.longest, self.table = longest, nn.Embedding(longest, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def embed(self, x: Float[Tensor, "b t d"], pos: Pos) -> Float[Tensor, "b t d"]:
        return x + self.table(pos)


@dataclass(frozen=True)
class Learned:
    """A table with one vector a position; the model's `longest` is its length."""

    kind: Literal["learned"] = "learned"

    def build(self, size: Size) -> Positions:
        return LearnedPositions(size.longest, size.width)
