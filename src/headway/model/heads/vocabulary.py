"""Vectors to a score for every piece of the vocabulary (section 3.4)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class VocabularyHead(nn.Module):
    """A linear map to the vocabulary, its matrix often the embedding's own."""

    def __init__(self, weight: nn.Parameter, bias: bool) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(len(weight))) if bias else None

    def forward(self, hidden: Float[Tensor, "*b d"]) -> Float[Tensor, "*b v"]:
        return F.linear(hidden, self.weight, self.bias)
