"""Which word came from which: read off the decoder's attention to the source."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headway.model.hooks import source_attention, twin
from headway.model.models import EncoderDecoder
from headway.text.tokenizer import Tokenizer, Tokenizers
from headway.text.vocabulary import BOS, EOS, PAD

Links = list[tuple[int, int]]


@torch.inference_mode()
def align(
    model: EncoderDecoder, tokenizers: Tokenizers, source: Int[Tensor, "b s"], targets: Sequence[list[int]]
) -> list[Links]:
    """For every target word, the source word it looked at most; words count from 0."""
    attention = cross_attention(model, source, targets)
    found = []
    for row, weights, target in zip(source.tolist(), attention, targets, strict=True):
        pieces = [piece for piece in row if piece not in (PAD, EOS)]
        from_words, to_words = words(pieces, tokenizers.source), words(target, tokenizers.target)
        found.append(links(weights[: len(target), : len(pieces)], to_words, from_words))
    return found


def cross_attention(
    model: EncoderDecoder, source: Int[Tensor, "b s"], targets: Sequence[list[int]]
) -> Float[Tensor, "b t s"]:
    """The last layer's mean over heads, when piece t is written. Earlier layers look further around.

    The end of the source, where idle heads look, is left out.
    """
    longest = max(map(len, targets)) + 1
    inputs = torch.tensor([[BOS, *t, *[PAD] * (longest - len(t) - 1)] for t in targets], device=source.device)
    model = twin(model)  # other threads may be using it
    return source_attention(model, source, inputs).masked_fill((source == EOS)[:, None], 0.0)


def words(pieces: list[int], tokenizer: Tokenizer) -> list[int]:
    """For each piece the number of its word; tags belong to none (-1)."""
    found, number, tags = [], -1, set(tokenizer.tags.values())
    for piece in pieces:
        if piece in tags:
            found.append(-1)
            continue
        number += tokenizer.starts_word(piece) or number < 0
        found.append(number)
    return found


def links(weights: Float[Tensor, "t s"], to_words: list[int], from_words: list[int]) -> Links:
    if not to_words or max(from_words, default=-1) < 0:
        return []
    by_source = F.one_hot(torch.tensor(from_words).clamp(min=0)).to(weights) * torch.tensor(
        [[float(word >= 0)] for word in from_words]
    ).to(weights)
    by_target = F.one_hot(torch.tensor(to_words)).to(weights)
    table = by_target.T @ weights @ by_source
    return [(int(best), word) for word, best in enumerate(table.argmax(dim=1))]
