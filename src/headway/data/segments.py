"""Batches of text segments for language models: shuffled, or in order for models with memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from headway.data.batches import BatchSettings
from headway.data.order import Cursor, permute, seeded
from headway.data.tokens import Tokens
from headway.text.vocabulary import BOS, PAD

SHIFT, SHUFFLE = 4, 5  # purposes of random numbers
LEAST = 16  # fewest segments of a row if rows take turns, as the first of a row has no memory


@dataclass(frozen=True)
class Segments:
    """A training batch of segments: the label of each token is the next token."""

    inputs: Int[Tensor, "b t"]
    labels: Int[Tensor, "b t"]  # padding where a document begins, as its beginning is not predicted
    beside: tuple[Tensor, ...]  # further inputs of a model with memory
    tokens: int  # number of labels that are not padding
    indices: Integer[np.ndarray, " b"]  # start of each segment in the text
    cursor: Cursor  # the position after this batch and those of the other ranks at the same step

    @classmethod
    def read(
        cls, text: Tokens, starts: Integer[np.ndarray, " b"], length: int, cursor: Cursor, beside: tuple[Tensor, ...]
    ) -> Segments:
        rows = torch.from_numpy(text.ring(starts, length + 1))
        labels = rows[:, 1:].masked_fill(rows[:, 1:] == BOS, PAD)
        return cls(rows[:, :-1].contiguous(), labels, beside, int((labels != PAD).sum()), starts, cursor)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.inputs, self.labels, *self.beside

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Segments:
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Segments:
        return self._each(Tensor.pin_memory)

    def split(self) -> tuple[Segments, Segments]:
        """Return two halves of the batch, used when the whole does not fit into memory."""
        middle = len(self.inputs) // 2
        if middle == 0:
            raise ValueError("a batch of one segment cannot be split")
        return self._part(slice(middle)), self._part(slice(middle, None))

    def _part(self, rows: slice) -> Segments:
        inputs, labels, *beside = (tensor[rows] for tensor in self.tensors())
        tokens = int((labels != PAD).sum())
        return Segments(inputs, labels, tuple(beside), tokens, self.indices[rows], self.cursor)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Segments:
        inputs, labels, *beside = (change(tensor) for tensor in self.tensors())
        return replace(self, inputs=inputs, labels=labels, beside=tuple(beside))


class Size(NamedTuple):
    """The number and the length of the segments in one rank's batch."""

    rows: int
    length: int

    @classmethod
    def of(cls, text: Tokens, segment: int, settings: BatchSettings) -> Size:
        """Return the size by the settings; a text shorter than a segment is one segment."""
        length = min(segment, len(text))
        rows = min(settings.tokens // length, settings.sentences or settings.tokens, len(text) // length)
        return cls(max(1, rows), length)


class Shuffled:
    """Shuffled segments. Every epoch divides the text at other positions."""

    def __init__(self, text: Tokens, size: Size, seed: int, rank: int = 0, world: int = 1) -> None:
        self.text, self.size, self.seed, self.rank, self.world = text, size, seed, rank, world
        self.segments = len(text) // size.length

    def iterate(self, cursor: Cursor) -> Generator[Segments]:
        """Yield this rank's batches: of every `world` consecutive batches, each rank takes one."""
        places = self._places(cursor)
        while True:
            step = list(islice(places, self.world))
            here, after = step[self.rank][0], step[-1][1]
            yield Segments.read(self.text, self.starts(here), self.size.length, after, ())

    def _places(self, here: Cursor) -> Iterator[tuple[Cursor, Cursor]]:
        while True:
            after = replace(here, batch=here.batch + 1)
            after = after if after.batch < self.count(here.epoch) else Cursor(here.epoch + 1)
            yield here, after
            here = after

    def starts(self, cursor: Cursor) -> Integer[np.ndarray, " b"]:
        first = cursor.batch * self.size.rows
        numbers = np.arange(first, min(first + self.size.rows, self.segments))
        shuffled = permute(numbers, self.segments, (self.seed, SHUFFLE, cursor.epoch))
        return (shuffled * self.size.length + shift(self.seed, cursor.epoch, self.size.length)) % len(self.text)

    def count(self, epoch: int) -> int:  # noqa: ARG002
        return -(-self.segments // self.size.rows)

    def passed(self, cursor: Cursor) -> float:
        return cursor.epoch + cursor.batch / self.count(cursor.epoch)


class InOrder:
    """Segments in order, for models with memory: the text is divided into long rows that are read segment by segment.

    Batches of different rows may take turns, so that consecutive steps do not all learn from the same pages.
    Each rank has rows of its own, and so one batch in each step.
    """

    def __init__(self, text: Tokens, size: Size, seed: int, rank: int = 0, world: int = 1, turns: int = 1) -> None:
        together = min(size.rows * world, max(world, len(text) // size.length))  # rows of one step over all ranks
        self.text, self.seed, self.world, self.together = text, seed, world, together
        self.turns = max(1, min(turns, len(text) // (together * size.length * LEAST)))
        self.long = max(1, len(text) // (together * self.turns))  # tokens of a row
        self.segments = -(-self.long // size.length)  # segments of a row
        self.length = -(-self.long // self.segments)  # of equal size, to avoid a short last segment
        self.rows = np.arange(together)[rank::world]  # this rank's rows in the first turn
        self.steps = self.segments * self.turns

    def iterate(self, cursor: Cursor) -> Generator[Segments]:
        epoch, step = cursor.epoch, min(cursor.batch // self.world, self.steps - 1)
        while True:
            segment, turn = divmod(step, self.turns)
            begin = segment * self.length
            rows = self.rows + turn * self.together
            starts = (rows * self.long + begin + shift(self.seed, epoch, self.long)) % len(self.text)
            last = step + 1 == self.steps
            after = Cursor(epoch + 1) if last else Cursor(epoch, 0, (step + 1) * self.world)
            length = min(self.length, self.long - begin)
            yield Segments.read(self.text, starts, length, after, self.beside(turn, fresh=segment == 0))
            epoch, step = (epoch + 1, 0) if last else (epoch, step + 1)

    def beside(self, turn: int, fresh: bool) -> tuple[Tensor, ...]:
        """Return the rows of this rank's memory, and whether each is reset."""
        count = len(self.rows)
        return torch.arange(count) + turn * count, torch.full((count,), fresh)

    def count(self, epoch: int) -> int:  # noqa: ARG002
        return self.steps * self.world

    def passed(self, cursor: Cursor) -> float:
        return cursor.epoch + cursor.batch / self.count(cursor.epoch)


def shift(seed: int, epoch: int, length: int) -> int:
    """Return the start of the first segment of an epoch."""
    return int(seeded(seed, SHIFT, epoch).integers(length))
