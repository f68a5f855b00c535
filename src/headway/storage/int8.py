"""Weights in int8: every row of a matrix is whole numbers from -127 to 127 times one scale of its own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from headway.errors import UsageError

SCALE = ".scale"  # ends the name of the scales that belong to a matrix
STEPS = 127  # of each sign
LEAST = 1e-9  # a row of zeros needs a scale too


def quantise(weight: Float[Tensor, "n k"]) -> tuple[Int8[Tensor, "n k"], Float[Tensor, "n"]]:
    """As engines/kernel/linear.h does, so that quantising what was restored gives the same whole numbers again."""
    exact = weight.float()
    scale = exact.abs().amax(dim=1).clamp(min=LEAST) / STEPS
    return (exact / scale[:, None]).round().to(torch.int8), scale


def restore(whole: Int8[Tensor, "n k"], scale: Float[Tensor, "n"]) -> Float[Tensor, "n k"]:
    return whole.float() * scale[:, None]


# ---------------------------------------------------------------- all weights of a model


def quantised(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices, embeddings among them, in int8 with their scales; norms and biases as they are: they are small."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.dim() == 2 and weight.is_floating_point():
            found[name], found[name + SCALE] = quantise(weight)
        else:
            found[name] = weight
    return found


def restored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights in fp32; those that were never quantised stay as they are."""
    scales = {name: weights[name + SCALE] for name, weight in weights.items() if is_quantised(name, weight, weights)}
    belonging = {name + SCALE for name in scales}
    for name, scale in scales.items():
        if scale.shape != weights[name].shape[:1] or not scale.is_floating_point():
            raise UsageError(f"{name + SCALE} must hold one number for each row of {name}")
    return {
        name: restore(weight, scales[name]) if name in scales else weight
        for name, weight in weights.items()
        if name not in belonging
    }


def is_quantised(name: str, weight: Tensor, weights: Mapping[str, Tensor]) -> bool:
    return weight.dtype == torch.int8 and weight.dim() == 2 and name + SCALE in weights
