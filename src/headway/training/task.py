"""The seam between a task and the trainer: what must be known to train, validate and publish any model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from headway.data.order import Cursor


class Batch(Protocol):
    """Some examples, ready for the device."""

    tokens: int  # what the loss is averaged over
    cursor: Cursor  # where to go on after this batch
    indices: Any  # which examples, to name them when something is wrong with them

    def tensors(self) -> tuple[Tensor, ...]:
        """What the objective takes."""
        ...

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch: ...

    def pin_memory(self) -> Batch: ...

    def split(self) -> tuple[Batch, Batch]: ...


class Stream(Protocol):
    """All batches of all epochs, in an order that depends on the seed alone."""

    def iterate(self, cursor: Cursor) -> Iterator[Batch]: ...

    def count(self, epoch: int) -> int: ...


@dataclass(frozen=True)
class Validation:
    """Scores on sentences the model does not learn from, and one of them to look at."""

    scores: dict[str, float]  # always with "loss"
    sample: dict[str, str] = field(default_factory=dict)  # source, reference, output


class Task(Protocol):
    """Data, loss, prediction and measure, joined. The trainer knows nothing else."""

    def build(self) -> nn.Module:
        """A fresh model of the run's design."""
        ...

    def objective(self, model: nn.Module) -> nn.Module:
        """A module from a batch's tensors to the sums (total, nll, count)."""
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
        """Counts for the plan and the model card."""
        ...
