"""CUDA graphs played on the CPU: a step's operations are written down with their tensors and done again, blindly.

As on a GPU, a replay calls no Python of ours: it reads and writes the same tensors, whatever was true when they were
written down stays true. What a GPU could not record (a look at a value, a shape that depends on one) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headway.training.engine import CapturedEngine, Engine, Recording

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "is_nonzero", "equal", "masked_scatter")


class NotRecordable(Exception):
    """The device would have to be waited for."""


@dataclass
class Operation:
    """One operator, the tensors it was given and the ones it made."""

    function: Any
    given: tuple[Any, ...]
    named: dict[str, Any]
    made: list[Tensor]

    def again(self) -> None:
        """What lies in memory of its own is written where it was; views and changes in place are there already."""
        mine = {x.untyped_storage().data_ptr() for x in tree_leaves((self.given, self.named)) if isinstance(x, Tensor)}
        found = tensors(self.function(*self.given, **self.named))
        for old, new in zip(self.made, found, strict=True):
            if old.untyped_storage().data_ptr() not in mine:
                old.copy_(new)


class Tape(TorchDispatchMode):
    """All operations done inside, to be done again."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ARG002
        refuse(func, args)
        made = func(*args, **(kwargs or {}))
        self.operations.append(Operation(func, args, kwargs or {}, tensors(made)))
        return made

    @torch.no_grad()
    def replay(self) -> None:
        for operation in self.operations:
            operation.again()


def tensors(made: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]


def refuse(function: Any, given: Any) -> None:
    name = function.overloadpacket.__name__
    by_mask = name.startswith("index") and any(x.dtype == torch.bool for x in tree_leaves(given[1:2]) if is_tensor(x))
    if by_mask or name.startswith(WAITING):
        raise NotRecordable(f"{function} would wait for the device")


def is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


class TapedEngine(CapturedEngine):
    """The captured engine without CUDA: forward and backward from tape, the update as ever."""

    def capture(self, work: Callable[[], tuple[Tensor, ...]]) -> Recording:
        """A trial run, then the recording, which here runs too: neither may leave a trace."""
        work()
        with Tape() as tape:
            outputs = work()
        return Recording(tape, outputs=outputs)

    def apply(self) -> tuple[Tensor, Tensor]:
        return Engine.apply(self)
