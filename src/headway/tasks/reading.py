"""What a language model is trained on: the next piece, everywhere in a segment."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.losses import chunked
from headway.models import LanguageModel

Sums = tuple[Float[Tensor, ""], Float[Tensor, ""], Int[Tensor, ""]]


class Reading(nn.Module):
    """Segments by themselves: (inputs, labels) to sums."""

    def __init__(self, model: LanguageModel, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, inputs: Int[Tensor, "b t"], labels: Int[Tensor, "b t"]) -> Sums:
        return sums(self.model, self.model.hidden(inputs)[0], labels, self.smoothing)


class Remembering(nn.Module):
    """Transformer-XL: each row goes on where its last segment ended, with that segment's vectors of every layer.

    The memory is no part of the model. It is carried from step to step in place, saved with every checkpoint, and
    `length` says how much of it is real: nothing at the beginning, and at rows that begin anew.
    """

    def __init__(self, model: LanguageModel, smoothing: float, rows: int) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing
        weight, layers = model.embedding.weight, len(model.stack.layers)
        vectors = weight.detach().new_zeros(layers, rows, model.memory, weight.size(1))
        self.carried = {"vectors": vectors, "length": vectors.new_zeros(rows, dtype=torch.long)}

    def forward(
        self,
        inputs: Int[Tensor, "b t"],
        labels: Int[Tensor, "b t"],
        rows: Int[Tensor, "b"],
        fresh: Bool[Tensor, "b"],
    ) -> Sums:
        """`rows`: which of the carried rows these are; `fresh`: those that do not go on from anything."""
        vectors, length = self.carried["vectors"], self.carried["length"]
        known = length[rows].masked_fill(fresh, 0)
        hidden, after = self.model.hidden(inputs, list(vectors[:, rows].unbind(0)), known)
        with torch.no_grad():
            vectors.index_copy_(1, rows, torch.stack(after).to(vectors.dtype))
            length.index_copy_(0, rows, (known + inputs.size(1)).clamp(max=self.model.memory))
        return sums(self.model, hidden, labels, self.smoothing)


def sums(model: LanguageModel, hidden: Float[Tensor, "b t d"], labels: Int[Tensor, "b t"], smoothing: float) -> Sums:
    loss = chunked(hidden, model.head.weight, model.head.bias, labels, smoothing)
    return loss.total, loss.nll, loss.count
