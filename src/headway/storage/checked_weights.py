"""Load weights into a model after comparing names and shapes, before memory is allocated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from headway.errors import UsageError
from headway.storage.folder import CONFIG, WEIGHTS
from headway.storage.weights import load_weights, weights_of

M = TypeVar("M", bound=nn.Module)


def filled(build: Callable[[], M], tensors: Mapping[str, Tensor]) -> M:
    """Return the model that `build` makes, with these weights; UsageError if names or shapes differ.

    The model is built on the meta device first, which takes no memory.
    """
    try:
        with torch.device("meta"):
            check_tensors({name: tuple(tensor.shape) for name, tensor in weights_of(build()).items()}, tensors)
        model = build().eval()
    except ValueError as error:
        raise UsageError(f"{CONFIG}: {error}") from None
    load_weights(model, tensors)
    return model


def check_tensors(expected: Mapping[str, Sequence[int]], tensors: Mapping[str, Tensor]) -> None:
    """Raise UsageError unless names and shapes are those that the configuration implies and types are floating."""
    for name, shape in expected.items():
        if name not in tensors:
            raise UsageError(f"{WEIGHTS} lacks {name}, which {CONFIG} implies with shape {tuple(shape)}")
        tensor = tensors[name]
        if tuple(tensor.shape) != tuple(shape):
            raise UsageError(f"{WEIGHTS}: {name} has shape {tuple(tensor.shape)}, but {CONFIG} implies {tuple(shape)}")
        if not tensor.is_floating_point() and shape:  # an integer scalar is the batch counter of a batch norm
            raise UsageError(f"{WEIGHTS}: {name} is {tensor.dtype}, but weights must be floating point numbers")
    for name in tensors:
        if name not in expected:
            raise UsageError(f"{WEIGHTS} holds {name!r:.80}, which {CONFIG} does not imply")
