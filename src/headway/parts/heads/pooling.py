"""A whole text as one vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class FirstVector(nn.Module):
    """The vector of the class token, which stands before every text."""

    def forward(self, hidden: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b d"]:  # noqa: ARG002
        return hidden[:, 0]


class MeanVector(nn.Module):
    """The mean over all real tokens."""

    def forward(self, hidden: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b d"]:
        weights = real / real.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.einsum("btd,bt->bd", hidden, weights.to(hidden.dtype))


class AttentionVector(nn.Module):
    """A weighted mean: one learned query asks every token how much it matters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key, self.query = nn.Linear(width, width), nn.Linear(width, 1, bias=False)

    def forward(self, hidden: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b d"]:
        scores = self.query(self.key(hidden).tanh())[..., 0].float()
        weights = scores.masked_fill(~real, -torch.inf).softmax(dim=-1)
        return torch.einsum("btd,bt->bd", hidden, weights.to(hidden.dtype))


@dataclass(frozen=True)
class ClassToken:
    """What the token before the text has gathered."""

    kind: Literal["class_token"] = "class_token"

    def build(self, width: int) -> nn.Module:  # noqa: ARG002
        return FirstVector()


@dataclass(frozen=True)
class Mean:
    """The mean of all tokens."""

    kind: Literal["mean"] = "mean"

    def build(self, width: int) -> nn.Module:  # noqa: ARG002
        return MeanVector()


@dataclass(frozen=True)
class Attention:
    """A learned weight for every token."""

    kind: Literal["attention"] = "attention"

    def build(self, width: int) -> nn.Module:
        return AttentionVector(width)


Pooling = Mean | ClassToken | Attention
