"""Attention kernels: queries, keys and values in; mixed values out."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from headway.model.mask import Mask
from headway.model.states import State

Queries = Float[Tensor, "b h q e"]
KeysOf = Float[Tensor, "b h k e"]
Bias = Float[Tensor, "#b h q k"] | None


class Kernel(nn.Module):
    """What a kernel can honour is compared once, when the model is built."""

    biased: ClassVar[bool] = True  # can add a bias to scores
    rotated: bool = True  # stays right when queries and keys are rotated
    causal: ClassVar[bool] = True  # can hide the future
    scaled: bool = True  # divides scores by the root of the head width

    def state(self, room: Callable[[], State]) -> State:
        """What it must remember while decoding; `room` makes a place for keys and values."""
        return room()

    def reference(self) -> Kernel:
        """A kernel that computes the same and sends its weights through `weights`, for looking inside."""
        return self

    def forward(self, q: Queries, k: KeysOf, v: KeysOf, mask: Mask, bias: Bias, state: State) -> Queries:
        raise TypeError("a kernel must say how it mixes values")
