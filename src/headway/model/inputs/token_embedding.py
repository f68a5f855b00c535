"""Token embeddings (section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.inputs.base import Embedded, InputLayer
from headway.model.size import Size
from headway.text.vocabulary import PAD

PRIMES = 1_000_003, 2_147_483_647  # they spread pairs of tokens evenly over a table of any size


def real_tokens(ids: Int[Tensor, "*b"]) -> Bool[Tensor, "*b"]:
    """Return False at padding, True elsewhere."""
    return ids != PAD


class TokenEmbedding(nn.Module):
    """A table of vectors, scaled by the square root of the width so that positions do not drown them."""

    def __init__(self, vocabulary: int, width: int, scaled: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        self.scale = width**0.5 if scaled else 1.0
        nn.init.normal_(self.weight)

    @property
    def vocabulary(self) -> int:
        return len(self.weight)

    def forward(self, batch: Int[Tensor, "b t"]) -> Embedded:
        return Embedded(self.embed(batch), real_tokens(batch))

    def embed(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """Return the vectors alone: decoding steps need no more."""
        vectors = F.embedding(ids, self.weight)
        return vectors if self.scale == 1.0 else vectors * self.scale


class BigramEmbedding(TokenEmbedding):
    """Adds a vector for each token and its right neighbour: TENER's bigram embeddings, for tokens of any kind.

    Bigrams share a table by a hash (Joulin et al. 2017), so no list of them is needed. The table begins at zero: a
    bigram that was never seen adds nothing.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, buckets: int) -> None:
        super().__init__(vocabulary, width, scaled)
        self.pairs: nn.Embedding = nn.Embedding(buckets, width)
        nn.init.zeros_(self.pairs.weight)

    def embed(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        return super().embed(ids) + self.pairs(self.buckets(ids))

    def buckets(self, ids: Int[Tensor, "b t"]) -> Int[Tensor, "b t"]:
        """Return the hash of every bigram. Padding follows the last token, also where the batch shows none."""
        return (ids * PRIMES[0] + F.pad(ids[:, 1:], (0, 1), value=PAD)) % PRIMES[1] % self.pairs.num_embeddings


@dataclass(frozen=True)
class Tokens:
    """Token ids through a table of vectors, the paper's."""

    kind: Literal["tokens"] = "tokens"

    def build(self, size: Size, vocabulary: int, scaled: bool) -> InputLayer:
        return TokenEmbedding(vocabulary, size.width, scaled)
