"""Pieces to vectors (section 3.4)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headway.text.vocabulary import PAD

PRIMES = 1_000_003, 2_147_483_647  # spread pairs evenly over any number of places


class Embedding(nn.Embedding):
    """A table of vectors, scaled by the square root of the width so that positions do not drown them."""

    def __init__(self, vocabulary: int, width: int, scaled: bool) -> None:
        super().__init__(vocabulary, width)
        self.scale = width**0.5 if scaled else 1.0

    def forward(self, input: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        found = super().forward(input)
        return found if self.scale == 1.0 else found * self.scale


class PairedEmbedding(Embedding):
    """Adds a vector for each piece together with its right neighbour: what TENER's bigrams are, for any pieces.

    Pairs share a table by a hash (Joulin et al. 2017), so there is no list of them. Its vectors begin at zero: a pair
    that was never seen says nothing.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, places: int) -> None:
        super().__init__(vocabulary, width, scaled)
        self.pairs = nn.Embedding(places, width)
        nn.init.zeros_(self.pairs.weight)

    def forward(self, input: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        return super().forward(input) + self.pairs(self.places(input))

    def places(self, ids: Int[Tensor, "b t"]) -> Int[Tensor, "b t"]:
        """After the last piece stands padding, whether the batch shows it or not."""
        return (ids * PRIMES[0] + F.pad(ids[:, 1:], (0, 1), value=PAD)) % PRIMES[1] % self.pairs.num_embeddings
