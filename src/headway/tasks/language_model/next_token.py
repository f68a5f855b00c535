"""What a language model is trained on: the next piece, everywhere in a segment."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.model.encoded import NO_SOURCE
from headway.model.models import LanguageModel
from headway.tasks.tagging.words import hide, unknown

Sums = tuple[Float[Tensor, ""], Float[Tensor, ""], Int[Tensor, ""]]


@dataclass(frozen=True)
class Lesson:
    """What makes the next piece harder to learn by heart."""

    smoothing: float = 0.0
    word_dropout: float = 0.0  # share of pieces hidden from the reader
    vocabulary_dropout: float = 0.0  # share of the vocabulary that is hidden wherever it stands
    agreement: float = 0.0  # how much two readings must agree (R-Drop); 0: one reading
    forget: float = 0.0  # share of rows that do without their memory in a step

    @property
    def readings(self) -> int:
        return 2 if self.agreement else 1

    def inputs(self, ids: Int[Tensor, "b t"], vocabulary: int) -> Int[Tensor, "c t"]:
        """A row for each reading, hidden each by itself."""
        rows = hide(ids.repeat(self.readings, 1), self.word_dropout)
        if not self.vocabulary_dropout:
            return rows
        hidden = torch.rand(self.readings, vocabulary, device=ids.device) < self.vocabulary_dropout
        reading = torch.arange(self.readings, device=ids.device).repeat_interleave(len(ids))
        return unknown(rows, hidden[reading[:, None], rows])

    def kept(self, known: Int[Tensor, "c"]) -> Int[Tensor, "c"]:
        """A model that never does without its memory leans on it. Two readings of a row forget together."""
        if not self.forget:
            return known
        forgot = torch.rand(len(known) // self.readings, device=known.device) < self.forget
        return known.masked_fill(forgot.repeat(self.readings), 0)

    def sums(self, model: LanguageModel, hidden: Float[Tensor, "c t d"], labels: Int[Tensor, "b t"]) -> Sums:
        loss = model.head.loss(hidden, NO_SOURCE, labels, self.smoothing, self.agreement)
        return loss.total, loss.nll, loss.count


class Reading(nn.Module):
    """Segments by themselves: (inputs, labels) to sums."""

    def __init__(self, model: LanguageModel, lesson: Lesson) -> None:
        super().__init__()
        self.model, self.lesson = model, lesson

    def forward(self, inputs: Int[Tensor, "b t"], labels: Int[Tensor, "b t"]) -> Sums:
        ids = self.lesson.inputs(inputs, self.model.vocabulary)
        return self.lesson.sums(self.model, self.model.hidden(ids)[0], labels)


class Remembering(nn.Module):
    """Transformer-XL: each row goes on where its last segment ended, with that segment's vectors of every layer.

    The memory is no part of the model. It is carried from step to step in place, saved with every checkpoint, and
    `length` says how much of it is real: nothing at the beginning, and at rows that begin anew. Two readings of a row
    remember each its own.
    """

    def __init__(self, model: LanguageModel, lesson: Lesson, rows: int) -> None:
        super().__init__()
        self.model, self.lesson, self.rows = model, lesson, rows
        weight, layers = model.embedding.weight, len(model.transformer.layers)
        vectors = weight.detach().new_zeros(layers, lesson.readings, rows, model.memory, weight.size(1))
        length = vectors.new_zeros(lesson.readings, rows, dtype=torch.long)
        self.carried = {"vectors": vectors, "length": length}

    def forward(
        self,
        inputs: Int[Tensor, "b t"],
        labels: Int[Tensor, "b t"],
        rows: Int[Tensor, "b"],
        fresh: Bool[Tensor, "b"],
    ) -> Sums:
        """`rows`: which of the carried rows these are; `fresh`: those that do not go on from anything."""
        vectors, length = self.carried["vectors"].flatten(1, 2), self.carried["length"].flatten()  # views
        rows = torch.cat([rows + reading * self.rows for reading in range(self.lesson.readings)])
        known = length[rows].masked_fill(fresh.repeat(self.lesson.readings), 0)
        seen = self.lesson.kept(known)
        ids = self.lesson.inputs(inputs, self.model.vocabulary)
        hidden, after = self.model.hidden(ids, list(vectors[:, rows].unbind(0)), seen)
        with torch.no_grad():
            vectors.index_copy_(1, rows, torch.stack(after).to(vectors.dtype))
            length.index_copy_(0, rows, (known + inputs.size(1)).clamp(max=self.model.memory))
        return self.lesson.sums(self.model, hidden, labels)
