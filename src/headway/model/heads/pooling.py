"""A whole text as one vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class Pooled(nn.Module, ABC):
    """A weighted mean of a text's vectors."""

    @abstractmethod
    def weights(self, hidden: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b t"]:
        """What each token counts; they sum to 1."""

    def forward(self, hidden: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b d"]:
        return torch.einsum("btd,bt->bd", hidden, self.weights(hidden, real).to(hidden.dtype))


class FirstVector(Pooled):
    """The vector of the class token, which stands before every text."""

    def weights(self, hidden: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b t"]:
        return (torch.arange(real.size(1), device=hidden.device) == 0).float().expand(real.shape)

    def forward(self, hidden: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b d"]:  # noqa: ARG002
        return hidden[:, 0]


class MeanVector(Pooled):
    """The mean over all real tokens."""

    def weights(self, hidden: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b t"]:  # noqa: ARG002
        return real / real.sum(dim=1, keepdim=True).clamp(min=1)


class AttentionVector(Pooled):
    """One learned query asks every token how much it matters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.key, self.query = nn.Linear(width, width), nn.Linear(width, 1, bias=False)

    def weights(self, hidden: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Float[Tensor, "b t"]:
        scores = self.query(self.key(hidden).tanh())[..., 0].float()
        return scores.masked_fill(~real, -torch.inf).softmax(dim=-1)


@dataclass(frozen=True)
class ClassToken:
    """What the token before the text has gathered."""

    kind: Literal["class_token"] = "class_token"

    def build(self, width: int) -> Pooled:  # noqa: ARG002
        return FirstVector()


@dataclass(frozen=True)
class Mean:
    """The mean of all tokens."""

    kind: Literal["mean"] = "mean"

    def build(self, width: int) -> Pooled:  # noqa: ARG002
        return MeanVector()


@dataclass(frozen=True)
class Attention:
    """A learned weight for every token."""

    kind: Literal["attention"] = "attention"

    def build(self, width: int) -> Pooled:
        return AttentionVector(width)


Pooling = Mean | ClassToken | Attention
