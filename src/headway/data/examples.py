"""Batches of encoded examples in memory as padded tensors, for tasks with small corpora."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor

from headway.data.batches import BatchSettings
from headway.data.bucketing import Lengths, Plan, Shape
from headway.data.epochs import Rounds
from headway.data.order import Cursor, Order, seeded
from headway.errors import UsageError

PACKING = 3  # purpose of random numbers, as in data/batches.py
Rows = Integer[np.ndarray, " n"]
Fill = Callable[[Rows, Shape], tuple[Tensor, ...]]  # turns examples into padded tensors; further rows are dummies


@dataclass(frozen=True)
class ExampleBatch:
    """A training batch of examples. Dummy rows have no labels."""

    parts: tuple[Tensor, ...]
    counts: Integer[np.ndarray, " b"]  # number of labels of each row
    indices: Integer[np.ndarray, " b"]  # of the examples; -1 for dummy rows
    cursor: Cursor  # the position after this batch and those of the other ranks at the same step

    @property
    def tokens(self) -> int:
        return int(self.counts.sum())

    def tensors(self) -> tuple[Tensor, ...]:
        return self.parts

    def to(self, device: torch.device | str, non_blocking: bool = False) -> ExampleBatch:
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> ExampleBatch:
        return self._each(Tensor.pin_memory)

    def split(self) -> tuple[ExampleBatch, ExampleBatch]:
        """Return two halves of the batch, used when the whole does not fit into memory."""
        middle = len(self.counts) // 2
        if middle == 0:
            raise ValueError("a batch of one example cannot be split")
        return self._part(slice(middle)), self._part(slice(middle, None))

    def _part(self, rows: slice) -> ExampleBatch:
        part = self._each(lambda tensor: tensor[rows])
        return replace(part, counts=self.counts[rows], indices=self.indices[rows])

    def _each(self, change: Callable[[Tensor], Tensor]) -> ExampleBatch:
        return replace(self, parts=tuple(change(part) for part in self.parts))


@dataclass(frozen=True)
class ExampleWindow:
    """A part of an epoch: examples, and how they are divided into batches."""

    examples: Rows
    plan: Plan
    fill: Fill
    counts: Rows  # number of labels of all examples

    def batch(self, number: int, cursor: Cursor) -> ExampleBatch:
        rows, shape = self.plan.batch(number)
        chosen = self.examples[rows]
        missing = (0, shape.rows - len(rows))
        return ExampleBatch(
            self.fill(chosen, shape),
            np.pad(self.counts[chosen], missing),
            np.pad(chosen, missing, constant_values=-1),
            cursor,
        )


class ExampleBatches:
    """All batches of all epochs, in an order that depends only on the seed."""

    def __init__(
        self,
        lengths: Lengths,  # positions of each example: of tokens, and of labels
        counts: Rows,  # number of labels of each example
        fill: Fill,
        settings: BatchSettings,
        seed: int,
        ranks: tuple[int, int] = (0, 1),  # this rank, and the number of ranks
    ) -> None:
        self.lengths, self.counts, self.fill, self.seed = lengths, counts, fill, seed
        longest = int(lengths.longer().max(initial=0))
        if longest > settings.tokens:
            raise UsageError(
                f"batches of {settings.tokens} tokens cannot hold the longest example of {longest} tokens; "
                "raise training.batch.tokens, or lower data.longest"
            )
        self.order = Order([len(counts)], [1.0], seed, int(lengths.source.sum()))
        self.rounds = Rounds(self.order, self.window, *ranks)
        self.packing = settings.build(longest, lambda: lengths)

    def iterate(self, cursor: Cursor) -> Generator[ExampleBatch]:
        return self.rounds.iterate(cursor)

    def count(self, epoch: int) -> int:
        return self.rounds.count(epoch)

    def passed(self, cursor: Cursor) -> float:
        return self.rounds.passed(cursor)

    def window(self, cursor: Cursor) -> ExampleWindow:
        examples = self.order.examples(cursor.epoch, cursor.window)
        rng = seeded(self.seed, PACKING, cursor.epoch, cursor.window)
        return ExampleWindow(examples, self.packing.pack(self.lengths.take(examples), rng), self.fill, self.counts)
