"""Several processes that train one model: who am I, and what do we add up?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from headway.errors import UsageError


@dataclass(frozen=True)
class Ranks:
    """One process alone."""

    rank: int = 0
    world: int = 1
    local: int = 0  # number on this machine

    @property
    def first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def sum(self, value: float, device: torch.device) -> float:
        return value

    def any(self, flag: bool, device: torch.device) -> bool:
        return self.sum(float(flag), device) > 0

    def add_up(self, numbers: torch.Tensor) -> torch.Tensor:
        return numbers

    def wrap(self, objective: nn.Module, device: torch.device) -> nn.Module:
        return objective

    def wait(self) -> None:
        """Until all are here."""


@dataclass(frozen=True)
class Together(Ranks):
    """Several processes, started by torchrun."""

    def sum(self, value: float, device: torch.device) -> float:
        total = torch.tensor(value, dtype=torch.float64, device=device)
        dist.all_reduce(total)
        return float(total)

    def add_up(self, numbers: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(numbers)
        return numbers

    def wrap(self, objective: nn.Module, device: torch.device) -> nn.Module:
        # Every rank begins with the same seed and so the same weights; DDP sends rank 0's all the same.
        ids = [device.index] if device.type == "cuda" else None
        return DistributedDataParallel(objective, device_ids=ids, gradient_as_bucket_view=True)

    def wait(self) -> None:
        dist.barrier()


@contextmanager
def join(device_type: str) -> Iterator[Ranks]:
    """Find the other processes, if torchrun started any, and leave them politely."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    try:
        rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    except KeyError as error:
        raise UsageError(f"WORLD_SIZE is {world} but {error.args[0]} is not set; start with torchrun") from None
    if device_type == "cuda":
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo")
    try:
        yield Together(rank, world, local)
    finally:
        dist.destroy_process_group()
