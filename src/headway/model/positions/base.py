"""Position schemes: three verbs, each does nothing by default."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn

Pos = Int[Tensor, "#b t"]
Heads = Float[Tensor, "b h t e"]


class Positions(nn.Module):
    """Knows no positions. A scheme overrides one verb.

    Content-dependent terms, such as Transformer-XL's, are a bias that looks at queries and keys: three verbs do.
    """

    per_layer: ClassVar[bool] = False  # every layer learns its own
    adds_bias: ClassVar[bool] = False
    rotates: ClassVar[bool] = False
    scaled: ClassVar[bool | None] = None  # whether it needs scores divided by the root of the head width
    relative: ClassVar[bool] = True  # only distances matter
    longest: int | None = None  # the last position it knows, if there is one

    def embed(self, x: Float[Tensor, "b t d"], pos: Pos) -> Float[Tensor, "b t d"]:
        return x

    def rotate(self, heads: Heads, pos: Pos) -> Heads:
        return heads

    def bias(
        self,
        q: Float[Tensor, "b h q e"],
        k: Float[Tensor, "b h k e"],
        q_pos: Int[Tensor, "#b q"],
        k_pos: Int[Tensor, "#b k"],
    ) -> Float[Tensor, "#b h q k"] | None:
        return None
