"""How an objective sees a model: a batch goes in, predictions for its labels come out. Every task has its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.heads.vocabulary import VocabularyHead
from headway.model.losses import chunked_cross_entropy

Sums = tuple[Float[Tensor, ""], Float[Tensor, ""], Int[Tensor, ""]]  # total loss, plain cross-entropy, real labels


@runtime_checkable
class Predictions(Protocol):
    """What a model predicts for the labels of a batch."""

    def loss(self, label_smoothing: float) -> Sums:
        """The cross-entropy with the labels; with R-Drop also the divergence of the two passes."""
        ...


class ForwardPass(nn.Module):
    """A model together with how the batches of its task go through it.

    Noise on the inputs, such as word dropout, belongs here. With `r_drop` above 0 every batch goes through the model
    twice, with other dropout masks, and the loss of the predictions adds `r_drop` times the symmetric KL divergence of
    the two (R-Drop, Liang et al. 2021). An objective need not know of it.
    """

    batch: ClassVar[type]  # a named tuple of a batch's tensors, in the order of `Batch.tensors`

    def __init__(self, model: nn.Module, r_drop: float = 0.0) -> None:
        super().__init__()
        self.model, self.r_drop = model, r_drop

    @property
    def passes(self) -> int:
        return 2 if self.r_drop else 1

    def forward(self, batch: Any) -> Predictions:
        raise NotImplementedError


@dataclass(frozen=True)
class VocabularyPredictions:
    """Next-token distributions, as the vectors they are computed from."""

    hidden: Float[Tensor, "c t d"]  # with R-Drop the rows of one pass, then the rows of the other
    head: VocabularyHead
    labels: Int[Tensor, "b t"]
    r_drop: float = 0.0

    def loss(self, label_smoothing: float) -> Sums:
        head = self.head
        loss = chunked_cross_entropy(self.hidden, head.weight, head.bias, self.labels, label_smoothing, self.r_drop)
        return loss.total, loss.nll, loss.count
