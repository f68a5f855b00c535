"""Int8 weights: each row of a matrix is integers from -127 to 127 times a scale."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from headway.errors import UsageError

SCALE = ".scale"  # suffix of the name of a matrix' scales
STEPS = 127  # largest absolute value
LEAST = 1e-9  # smallest row maximum, for rows of zeros


def quantise(weight: Float[Tensor, "n k"]) -> tuple[Int8[Tensor, "n k"], Float[Tensor, "n"]]:
    """Return integers and scales of a matrix, rounded as the native engine does, so that requantising is lossless."""
    exact = weight.float()
    scale = exact.abs().amax(dim=1).clamp(min=LEAST) / STEPS
    return (exact / scale[:, None]).round().to(torch.int8), scale


def restore(whole: Int8[Tensor, "n k"], scale: Float[Tensor, "n"]) -> Float[Tensor, "n k"]:
    """Return a quantised matrix in fp32."""
    return whole.float() * scale[:, None]


# ---------------------------------------------------------------- all weights of a model


def quantised(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights with matrices and embeddings in int8, with scales; norms and biases stay as they are."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.dim() == 2 and weight.is_floating_point():
            found[name], found[name + SCALE] = quantise(weight)
        else:
            found[name] = weight
    return found


def restored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights with quantised ones in fp32; the others stay as they are."""
    scales = {name: weights[name + SCALE] for name, weight in weights.items() if is_quantised(name, weight, weights)}
    belonging = {name + SCALE for name in scales}
    for name, scale in scales.items():
        if scale.shape != weights[name].shape[:1] or not scale.is_floating_point():
            raise UsageError(f"{name + SCALE} must have one number for each row of {name}")
    return {
        name: restore(weight, scales[name]) if name in scales else weight
        for name, weight in weights.items()
        if name not in belonging
    }


def is_quantised(name: str, weight: Tensor, weights: Mapping[str, Tensor]) -> bool:
    """Return whether a tensor is a matrix in int8 with scales."""
    return weight.dtype == torch.int8 and weight.dim() == 2 and name + SCALE in weights
