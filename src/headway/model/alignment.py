"""Word alignments, read from the decoder's attention to the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

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
    """Return for every target word the source word with the highest attention weight; words count from 0."""
    attention = cross_attention(model, source, targets)
    found: list[Links] = []
    rows = cast("list[list[int]]", source.tolist())  # pyright: ignore[reportUnknownMemberType]
    for row, weights, target in zip(rows, attention, targets, strict=True):
        pieces = [piece for piece in row if piece not in (PAD, EOS)]
        from_words, to_words = words(pieces, tokenizers.source), words(target, tokenizers.target)
        found.append(links(weights[: len(target), : len(pieces)], to_words, from_words))
    return found


def cross_attention(
    model: EncoderDecoder, source: Int[Tensor, "b s"], targets: Sequence[list[int]]
) -> Float[Tensor, "b t s"]:
    """Return the attention weights of the last layer when token t is predicted, the mean of its heads.

    Earlier layers attend more widely. The end of the source, where idle heads put their weight, gets none.
    """
    longest = max(map(len, targets)) + 1
    inputs = torch.tensor([[BOS, *t, *[PAD] * (longest - len(t) - 1)] for t in targets], device=source.device)
    model = twin(model)  # other threads may be using it
    return source_attention(model, source, inputs).masked_fill((source == EOS)[:, None], 0.0)


def words(pieces: list[int], tokenizer: Tokenizer) -> list[int]:
    """Return for each token the number of its word; tags belong to no word (-1)."""
    found: list[int] = []
    number, tags = -1, set(tokenizer.tags.values())
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
