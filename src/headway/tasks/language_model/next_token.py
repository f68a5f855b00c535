"""How a language model is trained: it predicts the next token at every position of a segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.model.models import LanguageModel
from headway.tasks.tagging.words import hide, unknown
from headway.training.forward_pass import ForwardPass, Predictions, VocabularyPredictions


@dataclass(frozen=True)
class InputNoise:
    """Random changes of a training batch, against overfitting. Each share is from 0 (off) to below 1."""

    word_dropout: float = 0.0  # share of the tokens that the model does not see
    vocabulary_dropout: float = 0.0  # share of the vocabulary that is hidden at every position
    memory_dropout: float = 0.0  # share of the rows that do not see their memory in a step

    def inputs(self, ids: Int[Tensor, "b t"], vocabulary: int, passes: int) -> Int[Tensor, "c t"]:
        """The batch once for each forward pass; every pass hides other tokens."""
        rows = hide(ids.repeat(passes, 1), self.word_dropout)
        if not self.vocabulary_dropout:
            return rows
        hidden = torch.rand(passes, vocabulary, device=ids.device) < self.vocabulary_dropout
        number = torch.arange(passes, device=ids.device).repeat_interleave(len(ids))
        return unknown(rows, hidden[number[:, None], rows])

    def visible(self, known: Int[Tensor, "c"], passes: int) -> Int[Tensor, "c"]:
        """The visible length of each row's memory: `known`, or 0. It is the same in all passes of a row."""
        if not self.memory_dropout:
            return known
        dropped = torch.rand(len(known) // passes, device=known.device) < self.memory_dropout
        return known.masked_fill(dropped.repeat(passes), 0)


class SegmentBatch(NamedTuple):
    """Segments of running text; the model predicts `labels`, which stand one position after `inputs`."""

    inputs: Int[Tensor, "b t"]
    labels: Int[Tensor, "b t"]


class SegmentForward(ForwardPass):
    """A language model and independent segments."""

    batch: ClassVar[type] = SegmentBatch
    model: LanguageModel

    def __init__(self, model: LanguageModel, noise: InputNoise, r_drop: float = 0.0) -> None:
        super().__init__(model, r_drop)
        self.noise = noise

    def forward(self, batch: SegmentBatch) -> Predictions:
        ids = self.noise.inputs(batch.inputs, self.model.vocabulary, self.passes)
        return VocabularyPredictions(self.model.hidden(ids)[0], self.model.head, batch.labels, self.r_drop)


class MemoryBatch(NamedTuple):
    """Segments that continue the rows of earlier batches."""

    inputs: Int[Tensor, "b t"]
    labels: Int[Tensor, "b t"]
    rows: Int[Tensor, "b"]  # which rows of the memory these are
    fresh: Bool[Tensor, "b"]  # rows that begin a text, and so see no memory


class MemoryForward(ForwardPass):
    """A Transformer-XL and segments in order: each row sees the hidden vectors of its last segment, of every layer.

    The memory is not part of the model. It is recurrent state: written in place from step to step and saved with every
    checkpoint. `length` says how many of its positions hold a token: none at the beginning and in fresh rows. With
    R-Drop each of the two passes has a memory of its own.
    """

    batch: ClassVar[type] = MemoryBatch
    model: LanguageModel

    def __init__(self, model: LanguageModel, noise: InputNoise, rows: int, r_drop: float = 0.0) -> None:
        super().__init__(model, r_drop)
        self.noise, self.rows = noise, rows
        weight, layers = model.embedding.weight, len(model.stack.layers)
        vectors = weight.detach().new_zeros(layers, self.passes, rows, model.memory, weight.size(1))
        length = vectors.new_zeros(self.passes, rows, dtype=torch.long)
        self.recurrent_state = {"vectors": vectors, "length": length}

    def forward(self, batch: MemoryBatch) -> Predictions:
        state, inputs = self.recurrent_state, batch.inputs
        vectors, length = state["vectors"].flatten(1, 2), state["length"].flatten()  # views
        rows = torch.cat([batch.rows + number * self.rows for number in range(self.passes)])
        known = length[rows].masked_fill(batch.fresh.repeat(self.passes), 0)
        visible = self.noise.visible(known, self.passes)
        ids = self.noise.inputs(inputs, self.model.vocabulary, self.passes)
        hidden, after = self.model.hidden(ids, list(vectors[:, rows].unbind(0)), visible)
        with torch.no_grad():
            vectors.index_copy_(1, rows, torch.stack(after).to(vectors.dtype))
            length.index_copy_(0, rows, (known + inputs.size(1)).clamp(max=self.model.memory))
        return VocabularyPredictions(hidden, self.model.head, batch.labels, self.r_drop)
