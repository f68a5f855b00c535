"""The seam between a task and the trainer: what must be known to train, validate and publish any model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from headway.data.order import Cursor
from headway.storage.card import CardFacts
from headway.training.forward_pass import ForwardPass


@runtime_checkable
class Batch(Protocol):
    """Some examples, ready for the device."""

    @property
    def tokens(self) -> int:
        """What the loss is averaged over."""
        ...

    @property
    def cursor(self) -> Cursor:
        """Where to go on after this batch."""
        ...

    @property
    def indices(self) -> Any:
        """Which examples, to name them when something is wrong with them."""
        ...

    def tensors(self) -> tuple[Tensor, ...]:
        """The fields of the named tuple that the task's forward pass takes."""
        ...

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch: ...

    def pin_memory(self) -> Batch: ...

    def split(self) -> tuple[Batch, Batch]: ...


@runtime_checkable
class Stream(Protocol):
    """All batches of all epochs, in an order that depends on the seed alone."""

    def iterate(self, cursor: Cursor) -> Iterator[Batch]: ...

    def count(self, epoch: int) -> int:
        """How many batches an epoch has, about."""
        ...

    def passed(self, cursor: Cursor) -> float:
        """How many times through the corpus, with a fraction."""
        ...


@dataclass(frozen=True)
class Validation:
    """Scores on sentences the model does not learn from, and one of them to look at."""

    scores: dict[str, float]  # with "loss"; empty if there are no such sentences
    sample: dict[str, str] = field(default_factory=dict)  # source, reference, output
    facts: dict[str, Any] = field(default_factory=dict)  # found on the way and published with the model: thresholds
    attention: dict[str, Any] = field(default_factory=dict)  # where it looked while writing the sample, packed


@runtime_checkable
class Task(Protocol):
    """Data, loss, prediction and measure, joined. The trainer knows nothing else."""

    @property
    def fingerprint(self) -> str:
        """Changes with the training text, the pieces and the seed."""
        ...

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the scores of a validation besides the loss, for `training.best_metric`. Higher is better."""
        ...

    def build(self) -> nn.Module:
        """A fresh model of the run's design."""
        ...

    def forward_pass(self, model: nn.Module) -> ForwardPass:
        """How a batch goes through the model, and what it predicts; the objective makes a loss of it."""
        ...

    def stream(self, rank: int, world: int) -> Stream: ...

    def validate(self, model: nn.Module, device: torch.device) -> Validation: ...

    def where(self, indices: Any) -> str:
        """Which lines of which files these examples are, in words."""
        ...

    def save(self, folder: Path) -> None:
        """Write what a model folder needs besides weights: tokenisers, labels."""
        ...

    def facts(self) -> dict[str, Any]:
        """Counts for the plan: what is told of the files, the pieces and the labels."""
        ...

    def card(self, folder: Path, scores: Mapping[str, float]) -> CardFacts:
        """What the model's card says of its data, its sizes, its scores and its use; the trainer adds the rest."""
        ...
