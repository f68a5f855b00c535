"""Several processes that train one model: who am I, and what do we add up?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from headway.errors import LostError, UsageError
from headway.model.stacks import Stack

PATIENCE = timedelta(hours=6)  # others wait while the first encodes a large corpus; torchrun notices the dead
GROUPS: list[object] = []  # kept to the end: if DDP is the last to let go of its group, both may wait for ever

T = TypeVar("T")


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

    def sum(self, *values: float | int) -> list[float]:
        """Each value, summed over all processes."""
        return [float(value) for value in values]

    def add_up(self, numbers: Tensor) -> Tensor:
        """The same for a tensor on the device."""
        return numbers

    def stack(self, tensor: Tensor) -> Tensor:
        """Every process's own tensor of this shape, one above the other."""
        return tensor[None]

    def wrap(self, loss: nn.Module, device: torch.device, shard: bool) -> nn.Module:
        """Let backward exchange gradients; `shard`: each process also keeps only its part of the weights."""
        return loss

    def in_turn(self, work: Callable[[], T]) -> T:
        """The first process works alone, then the others find what it made."""
        return work()

    def wait(self) -> None:
        """Until all are here."""


@dataclass(frozen=True)
class Together(Ranks):
    """Several processes, started by torchrun."""

    def sum(self, *values: float | int) -> list[float]:
        totals = torch.tensor(values, dtype=torch.float64)  # on the CPU: no device has to be waited for
        dist.all_reduce(totals)
        return totals.tolist()

    def add_up(self, numbers: Tensor) -> Tensor:
        dist.all_reduce(numbers)
        return numbers

    def stack(self, tensor: Tensor) -> Tensor:
        every = [torch.empty_like(tensor) for _ in range(self.world)]
        dist.all_gather(every, tensor.contiguous())
        return torch.stack(every)

    def wrap(self, loss: nn.Module, device: torch.device, shard: bool) -> nn.Module:
        # Every rank begins with the same seed and so the same weights; DDP sends rank 0's all the same.
        if shard:
            return sharded(loss, device)
        ids = [device.index] if device.type == "cuda" else None
        return DistributedDataParallel(loss, device_ids=ids, gradient_as_bucket_view=True)

    def in_turn(self, work: Callable[[], T]) -> T:
        made = [work()] if self.first else []
        self.wait()
        return made[0] if made else work()

    def wait(self) -> None:
        self.sum(0.0)


def sharded(loss: nn.Module, device: torch.device) -> nn.Module:
    """FSDP2: layers are gathered one by one when they are used; what lies outside of layers, together."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for stack in [module for module in loss.modules() if isinstance(module, Stack)]:
        for layer in stack.layers:
            fully_shard(layer, mesh=mesh)
    return cast("nn.Module", fully_shard(loss, mesh=mesh))


def meeting_place(rank: int, world: int) -> dist.Store:
    """Where processes find each other. torchrun keeps its store when it starts them again, with the addresses of the
    dead in it, so every attempt writes under a name of its own."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    torchrun_keeps_it = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(address, port, world, is_master=rank == 0 and not torchrun_keeps_it, timeout=PATIENCE)
    return dist.PrefixStore(f"headway/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


@contextmanager
def join(device_type: str) -> Iterator[Ranks]:
    """Find the other processes, if torchrun started any, and leave them politely."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    try:
        rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
        store = meeting_place(rank, world)
    except KeyError as error:
        raise UsageError(f"WORLD_SIZE is {world} but {error.args[0]} is not set; start with torchrun") from None
    if device_type == "cuda":
        torch.cuda.set_device(local)
    backend = "cpu:gloo,cuda:nccl" if device_type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=PATIENCE, store=store, rank=rank, world_size=world)
    GROUPS.append(dist.group.WORLD)
    try:
        yield Together(rank, world, local)
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error):
            lost = "another process was lost; torchrun --max-restarts goes on from the last checkpoint"
            raise LostError(lost) from error
        raise
    finally:
        dist.destroy_process_group()
