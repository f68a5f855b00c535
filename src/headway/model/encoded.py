"""What a decoder and an output distribution know of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from headway.model.inputs.base import SourceBatch
from headway.model.mask import Mask


@dataclass(frozen=True)
class Memory:
    """Vectors that a layer attends to besides its own: an encoder layer's output, or an earlier segment's vectors."""

    x: Float[Tensor, "b s d"]
    pos: Int[Tensor, "#b s"]
    mask: Mask

    def select(self, sentences: Int[Tensor, "m"]) -> Memory:
        return Memory(self.x[sentences], self.pos, self.mask.select(sentences))


@dataclass(frozen=True)
class EncodedSource:
    """The source as it was given, and the encoder's output for each decoder layer.

    A language model has no source: both fields are empty.
    """

    batch: SourceBatch | None = None
    memories: Sequence[Memory] = ()

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.memories[0].x) if self.memories else 0

    def select(self, sentences: Int[Tensor, "m"]) -> EncodedSource:
        """Return these sentences. Decoder layers that share an encoder layer's output go on sharing it."""
        selected = {id(one): one.select(sentences) for one in {id(one): one for one in self.memories}.values()}
        batch = None if self.batch is None else self.batch.index_select(0, sentences)
        return EncodedSource(batch, [selected[id(one)] for one in self.memories])


NO_SOURCE = EncodedSource()
