"""The tensors of a model by name, each stored once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]
NamedTensors = Mapping[str, Tensor]  # read only


def weights_of(model: nn.Module) -> Weights:
    """Return the tensors of a model by name; tied ones appear under their first name only."""
    seen: set[int] = set()
    found: Weights = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy tensors into a model in place."""
    for name, tensor in weights_of(model).items():
        fill(tensor, weights[name])


# ---------------------------------------------------------------- tensors that are sharded over ranks (FSDP2)


def whole(tensor: Tensor) -> Tensor:
    """Return a whole tensor; if it is sharded, all ranks must call this at the same time."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def gathered(weights: Weights) -> Weights:
    """Return the tensors with sharded ones gathered on the CPU."""
    return {name: whole(w).cpu() if hasattr(w, "full_tensor") else w for name, w in weights.items()}


@torch.no_grad()
def fill(place: Tensor, value: Tensor) -> None:
    """Copy a tensor in place, each rank its shard: captured graphs refer to tensors by address."""
    if hasattr(place, "full_tensor"):
        from torch.distributed.tensor import distribute_tensor

        mesh, placements = place.device_mesh, place.placements  # pyright: ignore[reportAttributeAccessIssue]
        value = distribute_tensor(value.to(place.device), mesh, placements, src_data_rank=None)
    place.copy_(value)
