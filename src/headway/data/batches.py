"""Encoded pairs to padded tensors, in an order that any step can be resumed from."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from headway.data.bucketing import Bounded, Exact, Lengths, Plan, Shape
from headway.data.epochs import Rounds
from headway.data.order import Cursor, Order, seeded
from headway.data.rows import choose, pad, take
from headway.data.store import Store
from headway.errors import UsageError
from headway.text.ragged import Ragged
from headway.text.vocabulary import BOS, EOS, PAD

RESAMPLING, PACKING = 2, 3  # purposes of random numbers; the order has 0 and 1


@runtime_checkable
class Resample(Protocol):
    """The same sentences in other pieces (subword regularisation)."""

    def __call__(
        self, flat: Integer[np.ndarray, "p"], offsets: Int[np.ndarray, "m"], rng: np.random.Generator
    ) -> tuple[Integer[np.ndarray, "q"], Int[np.ndarray, "m"]]: ...


@dataclass(frozen=True)
class BatchSettings:
    """The size of a batch and the shapes that it may have."""

    section: ClassVar[bool] = True

    tokens: int = 4096  # maximum positions of a batch on either side, padding included
    sentences: int | None = None  # maximum sentences of a batch; unset: no limit
    shapes: Literal["exact", "bounded"] = "exact"  # exact: least padding; bounded: few shapes, for CUDA graphs

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"tokens is {self.tokens}: it must be 1 or more")
        if self.sentences is not None and self.sentences < 1:
            raise ValueError(f"sentences is {self.sentences}: it must be 1 or more, or unset")

    def build(self, longest: int, sample: Callable[[], Lengths]) -> Exact:
        """The packing; rows have at most `longest` positions, and `sample` tells typical lengths."""
        makers = {
            "exact": lambda: Exact(self.tokens, self.sentences, longest),
            "bounded": lambda: Bounded(self.tokens, self.sentences, longest, sample()),
        }
        return makers[self.shapes]()


@dataclass(frozen=True)
class Batch:
    """Sentence pairs to train on. Dummy rows have no labels, and one real piece so that attention sees something."""

    source: Int[Tensor, "b s"]
    inputs: Int[Tensor, "b t"]  # begin and target
    labels: Int[Tensor, "b t"]  # target and end
    tokens: int  # labels that are no padding
    source_tokens: int
    indices: Integer[np.ndarray, " b"]  # of the examples in the store; -1 for dummies
    cursor: Cursor  # where to go on after this batch and those of the other ranks at the same step

    @property
    def shape(self) -> Shape:
        return Shape(len(self.source), self.source.shape[1], self.inputs.shape[1])

    def tensors(self) -> tuple[Tensor, ...]:
        return self.source, self.inputs, self.labels

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        return self._each(Tensor.pin_memory)

    def split(self) -> tuple[Batch, Batch]:
        """Two halves, for when the whole does not fit into memory."""
        middle = len(self.source) // 2
        if middle == 0:
            raise ValueError("a batch of one sentence cannot be split")
        return self._part(slice(middle)), self._part(slice(middle, None))

    def _part(self, rows: slice) -> Batch:
        source, labels, indices = self.source[rows], self.labels[rows], self.indices[rows]
        real = torch.from_numpy(indices >= 0).to(source.device)
        tokens, source_tokens = int((labels != PAD).sum()), int((source[real] != PAD).sum())
        return Batch(source, self.inputs[rows], labels, tokens, source_tokens, indices, self.cursor)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(self, source=change(self.source), inputs=change(self.inputs), labels=change(self.labels))


@dataclass(frozen=True)
class Window:
    """Some examples in memory, and which of them share a batch."""

    examples: Integer[np.ndarray, " n"]
    source: Ragged
    target: Ragged
    plan: Plan

    def batch(self, number: int, cursor: Cursor) -> Batch:
        rows, shape = self.plan.batch(number)
        sources, targets = take(self.source, rows), take(self.target, rows)
        source = pad(sources, shape.rows, shape.source)
        source[len(rows) :, 0] = EOS
        labels = pad(targets, shape.rows, shape.target)
        inputs = np.roll(labels, 1, axis=1)  # the last column is free: every target leaves room for its end
        inputs[:, 0] = BOS
        labels[np.arange(len(rows)), targets.lengths] = EOS
        return Batch(
            *map(torch.from_numpy, (source, inputs, labels)),
            tokens=len(targets.flat) + len(rows),
            source_tokens=len(sources.flat),
            indices=np.pad(self.examples[rows], (0, shape.rows - len(rows)), constant_values=-1),
            cursor=cursor,
        )


class Batches:
    """All batches of all epochs of an encoded corpus, read as they are needed."""

    def __init__(
        self,
        store: Store,
        settings: BatchSettings,
        seed: int,
        rank: int = 0,
        world: int = 1,
        resample: tuple[Resample, Resample] | None = None,  # of the source and of the target
        weights: Sequence[float] | None = None,  # of the corpora
    ) -> None:
        self.store, self.seed, self.resample = store, seed, resample
        self.order = _order(store, seed, weights)
        self.rounds = Rounds(self.order, self._window, rank, world)
        source, target = store.facts.longest
        self._busy = Lock()  # a resampler may remember words, and windows are made ahead
        longest = max(source, target + 1)
        if longest > settings.tokens:
            raise UsageError(
                f"batches of {settings.tokens} tokens cannot hold the longest sentence, {longest} pieces; "
                "raise tokens, or lower data.longest"
            )
        self.packing = settings.build(longest, lambda: _lengths(*self._read(self.order.settle(Cursor()))[1:]))

    def iterate(self, cursor: Cursor) -> Generator[Batch]:
        return self.rounds.iterate(cursor)

    def count(self, epoch: int) -> int:
        return self.rounds.count(epoch)

    def passed(self, cursor: Cursor) -> float:
        return self.rounds.passed(cursor)

    def _window(self, cursor: Cursor) -> Window:
        examples, source, target = self._read(cursor)
        rng = seeded(self.seed, PACKING, cursor.epoch, cursor.window)
        plan = self.packing.pack(_lengths(source, target), rng)
        return Window(examples, source, target, plan)

    def _read(self, cursor: Cursor) -> tuple[Integer[np.ndarray, " n"], Ragged, Ragged]:
        """The examples of a window and their text, resampled."""
        examples = self.order.examples(cursor.epoch, cursor.window)
        sides = [column.ragged(examples) for column in (self.store.source, self.store.target)]
        if self.resample is not None:
            rng = seeded(self.seed, RESAMPLING, cursor.epoch, cursor.window)
            with self._busy:
                parts = zip(self.resample, sides, self.store.facts.longest, strict=True)
                sides = [_vary(*part, rng) for part in parts]
        return examples, sides[0], sides[1]


def _order(store: Store, seed: int, weights: Sequence[float] | None) -> Order:
    sizes = store.facts.corpora
    weights = [1.0] * len(sizes) if weights is None else weights
    sizes = [*sizes, *[0] * (len(weights) - len(sizes))]  # the last corpora may have lost all their pairs
    try:
        return Order(sizes, weights, seed, sum(store.facts.pieces))
    except ValueError as error:
        raise UsageError(f"nothing to train on: {error}") from None


def _vary(resample: Resample, table: Ragged, longest: int, rng: np.random.Generator) -> Ragged:
    """Other pieces, except where they would be more than any sentence has now."""
    varied = Ragged(*resample(table.flat, table.offsets, rng))
    return choose(varied.lengths <= longest, varied, table)


def _lengths(source: Ragged, target: Ragged) -> Lengths:
    return Lengths(source.lengths, target.lengths + 1)
