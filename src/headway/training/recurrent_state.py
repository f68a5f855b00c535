"""What one step hands to the next besides weights: the memory of Transformer-XL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Carrying(Protocol):
    """An objective that reads in one step what it wrote in the step before.

    Its tensors are written in place and never exchanged: captured graphs know them by their addresses.
    """

    @property
    def carried(self) -> dict[str, Tensor]: ...


def carried_by(objective: nn.Module) -> dict[str, Tensor]:
    """What an objective carries from step to step; most carry nothing."""
    return objective.carried if isinstance(objective, Carrying) else {}


@contextmanager
def untouched(carried: dict[str, Tensor]) -> Iterator[None]:
    """What is tried out inside leaves no trace in what is carried."""
    before = {name: tensor.clone() for name, tensor in carried.items()}
    try:
        yield
    finally:
        put_back(carried, before)


@torch.no_grad()
def put_back(carried: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    for name, tensor in carried.items():
        tensor.copy_(values[name])
