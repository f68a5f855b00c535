"""The seam of the inputs: a batch goes in; vectors come out, and which of them are real."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.text.vocabulary import PAD


class Embedded(NamedTuple):
    """A batch as vectors. An input that shortens its sequence, such as strided convolutions, shortens both fields."""

    vectors: Float[Tensor, "b s d"]
    real: Bool[Tensor, "b s"]  # False at padding


@dataclass(frozen=True)
class Features:
    """A batch of inputs that are not tokens, such as frames of speech or patches of images, padded at the end."""

    values: Float[Tensor, "b s ..."]
    lengths: Int[Tensor, "b"]  # frames or patches of each input that are real

    def __len__(self) -> int:
        return len(self.values)

    @property
    def device(self) -> torch.device:
        return self.values.device

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Features:
        return Features(*(x.to(device, non_blocking=non_blocking) for x in (self.values, self.lengths)))

    def index_select(self, dim: int, rows: Int[Tensor, "n"]) -> Features:
        """Return these rows of the batch, as a tensor's method of this name does."""
        return Features(self.values.index_select(dim, rows), self.lengths.index_select(dim, rows))


# What a model reads: token ids, padded at the end with PAD, or features with their lengths.
SourceBatch = Int[Tensor, "b s"] | Features


def lengths_of(source: SourceBatch) -> Int[Tensor, "b"]:
    """Return the number of real tokens, frames or patches of each input."""
    return source.lengths if isinstance(source, Features) else (source != PAD).sum(dim=1)


@runtime_checkable
class InputLayer(Protocol):
    """A module that reads one kind of batch. Models never look into a batch themselves."""

    def __call__(self, batch: SourceBatch) -> Embedded: ...
