"""A model's tensors by name, each stored once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]


def weights_of(model: nn.Module) -> Weights:
    """Tied matrices appear under their first name only."""
    seen: set[int] = set()
    found: Weights = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


@torch.no_grad()
def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """In place: captured graphs know the weights by their addresses."""
    for name, tensor in weights_of(model).items():
        tensor.copy_(weights[name])
