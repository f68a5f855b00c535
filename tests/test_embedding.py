"""Vectors of tokens, and of tokens with their right neighbours."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.inputs import BigramEmbedding, TokenEmbedding
from headway.text.vocabulary import PAD

WORDS = 17


def test_bigrams_add_a_vector_of_each_token_and_its_right_neighbour() -> None:
    """A table with a place for every pair holds what a dictionary would; padding more changes nothing."""
    embedding = BigramEmbedding(WORDS, 8, scaled=True, buckets=1 << 20)
    ids = torch.randint(4, WORDS, (3, 9))
    plain = TokenEmbedding(WORDS, 8, scaled=True)
    plain.load_state_dict({"weight": embedding.weight})
    assert torch.equal(embedding.embed(ids), plain.embed(ids))  # they begin at zero
    nn.init.normal_(embedding.pairs.weight)
    added = embedding.embed(ids) - plain.embed(ids)
    known: dict[tuple[int, int], Tensor] = {}
    for row, vectors in zip(ids.tolist(), added, strict=True):
        for pair, vector in zip(pairwise([*row, PAD]), vectors, strict=True):
            assert torch.allclose(known.setdefault(pair, vector), vector, atol=1e-5)
    assert len({tuple(vector.tolist()) for vector in known.values()}) == len(known)
    padded = F.pad(ids, (0, 4), value=PAD)
    assert torch.equal(embedding.embed(padded)[:, :9], embedding.embed(ids))
