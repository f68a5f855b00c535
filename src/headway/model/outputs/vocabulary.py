"""A linear map to the vocabulary (section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.encoded import NO_SOURCE, EncodedSource
from headway.model.losses import Loss, chunked_cross_entropy
from headway.model.outputs.base import OutputLayer
from headway.model.size import Size


class VocabularyHead(OutputLayer):
    """Scores every token of the vocabulary by a linear map. The source is not used."""

    def __init__(self, weight: nn.Parameter, bias: bool) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(len(weight))) if bias else None

    def forward(
        self,
        hidden: Float[Tensor, "*b d"],
        source: EncodedSource = NO_SOURCE,
    ) -> Float[Tensor, "*b v"]:
        return F.linear(hidden, self.weight, self.bias)

    def loss(
        self,
        hidden: Float[Tensor, "c t d"],
        source: EncodedSource,
        labels: Int[Tensor, "b t"],
        label_smoothing: float,
        r_drop: float = 0.0,
    ) -> Loss:
        """Return the same loss without ever holding the logits of the whole batch."""
        return chunked_cross_entropy(hidden, self.weight, self.bias, labels, label_smoothing, r_drop)


@dataclass(frozen=True)
class Vocabulary:
    """A softmax over the vocabulary, the paper's."""

    kind: Literal["vocabulary"] = "vocabulary"

    def build(self, size: Size, weight: nn.Parameter, bias: bool) -> OutputLayer:
        """Build the module around the output matrix, which may be the embedding's own."""
        return VocabularyHead(weight, bias)
