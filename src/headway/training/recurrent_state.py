"""Recurrent state of training: what one step hands to the next besides weights, such as Transformer-XL's memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Recurrent(Protocol):
    """A module that reads in one step what it wrote in the step before.

    Its tensors are written in place and never replaced: captured graphs know them by their addresses.
    """

    @property
    def recurrent_state(self) -> dict[str, Tensor]: ...


def recurrent_state_of(loss: nn.Module) -> dict[str, Tensor]:
    """The recurrent state of a module and its parts by name; usually empty."""
    parts = [module for module in loss.modules() if isinstance(module, Recurrent)]
    return {name: tensor for part in parts for name, tensor in part.recurrent_state.items()}


@contextmanager
def preserved(state: dict[str, Tensor]) -> Iterator[None]:
    """Restore the state at the end of the block."""
    before = {name: tensor.clone() for name, tensor in state.items()}
    try:
        yield
    finally:
        restore_state(state, before)


@torch.no_grad()
def restore_state(state: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    """Copy the values into the tensors of the state."""
    for name, tensor in state.items():
        tensor.copy_(values[name])
