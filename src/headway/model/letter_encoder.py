"""A vector of a word made from its letters: for names, endings and words never seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.design import TextEncoderDesign
from headway.model.feed_forward import Relu
from headway.model.initialisation import initialise
from headway.model.models import TextEncoder
from headway.model.size import check_range
from headway.text.vocabulary import PAD


class LetterEncoder(nn.Module):
    """Letters mixed within their word, the largest of each feature, and a linear map to the width of the model."""

    def __init__(self, mix: nn.Module, inner: int, width: int) -> None:
        super().__init__()
        self.mix, self.out = mix, nn.Linear(inner, width, bias=False)

    def forward(self, letters: Int[Tensor, "b t c"]) -> Float[Tensor, "b t d"]:
        """Every word has at least one letter, also those that are padding."""
        flat = letters.flatten(0, 1)
        mixed = self.mix(flat).masked_fill((flat == PAD)[..., None], -torch.inf)
        return self.out(mixed.amax(dim=1)).unflatten(0, letters.shape[:2])


class Neighbours(nn.Module):
    """A convolution over the letters."""

    def __init__(self, letters: int, width: int, reach: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(letters, width, padding_idx=PAD)
        self.convolution = nn.Conv1d(width, width, reach, padding=reach // 2)

    def forward(self, letters: Int[Tensor, "n c"]) -> Float[Tensor, "n c d"]:
        return self.convolution(self.embedding(letters).transpose(1, 2)).transpose(1, 2)


class Everywhere(nn.Module):
    """A small Transformer over the letters."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, letters: Int[Tensor, "n c"]) -> Float[Tensor, "n c d"]:
        return self.encoder(letters)


@dataclass(frozen=True)
class LetterCnn:
    """A convolution over the letters of a word (Ma and Hovy 2016)."""

    kind: Literal["cnn"] = "cnn"
    width: int = 48  # width of a letter's vector
    reach: int = 3  # convolution width in letters, an odd number
    longest: int = 24  # maximum letters of a word that are read

    def __post_init__(self) -> None:
        check_range("width", self.width, 1, 4096)
        check_range("longest", self.longest, 1, 1000)
        if self.reach < 1 or self.reach % 2 == 0:
            raise ValueError(f"reach is {self.reach}: it must be an odd number")

    def build(self, design: TextEncoderDesign, letters: int) -> LetterEncoder:
        encoder = LetterEncoder(Neighbours(letters, self.width, self.reach), self.width, design.width)
        initialise(encoder, {})
        return encoder


@dataclass(frozen=True)
class LetterTransformer:
    """A Transformer over the letters of a word, with the positions and the attention of the model (TENER's)."""

    kind: Literal["transformer"] = "transformer"
    width: int = 48  # width of a letter's vector
    heads: int = 3  # attention heads
    layers: int = 1  # number of layers
    longest: int = 24  # maximum letters of a word that are read

    def __post_init__(self) -> None:
        check_range("width", self.width, 1, 4096)
        check_range("heads", self.heads, 1, self.width)
        check_range("layers", self.layers, 1, 100)
        check_range("longest", self.longest, 1, 1000)
        if self.width % self.heads:
            raise ValueError(f"width is {self.width} and heads is {self.heads}: width must be a multiple of heads")

    def build(self, design: TextEncoderDesign, letters: int) -> LetterEncoder:
        small = replace(
            design, width=self.width, heads=self.heads, key_heads=None, head_width=None, layers=self.layers,
            feed_forward=Relu(width=2 * self.width), longest=max(self.longest, 1), bigram_buckets=0,
            embedding_dropout=None,
        )  # fmt: skip
        encoder = LetterEncoder(Everywhere(small.build(letters)), self.width, design.width)
        nn.init.xavier_uniform_(encoder.out.weight)
        return encoder


Letters = LetterCnn | LetterTransformer
