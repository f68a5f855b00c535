"""Pieces to vectors (section 3.4)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn


class Embedding(nn.Embedding):
    """A table of vectors, scaled by the square root of the width so that positions do not drown them."""

    def __init__(self, vocabulary: int, width: int, scaled: bool) -> None:
        super().__init__(vocabulary, width)
        self.scale = width**0.5 if scaled else 1.0

    def forward(self, input: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        found = super().forward(input)
        return found if self.scale == 1.0 else found * self.scale
