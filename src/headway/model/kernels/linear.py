"""Linear attention: phi(q) (phi(k)^T v), an RNN at decoding time (Katharopoulos et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.kernels.base import Bias, Kernel, KeysOf, Queries
from headway.model.mask import Mask
from headway.model.size import Size, check_range
from headway.model.states import State, Sums


def feature(x: Float[Tensor, "b h t e"]) -> Float[Tensor, "b h t e"]:
    """elu(x) + 1: positive, so that weights are."""
    return F.elu(x) + 1


class LinearKernel(Kernel):
    """Time and memory grow with n, not n²; while decoding it remembers two sums of constant size."""

    biased: ClassVar[bool] = False  # there is no score to add a bias to
    rotated: bool = False  # a rotation before phi breaks shift invariance

    def __init__(self, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk

    def state(self, room: Callable[[], State]) -> State:
        return Sums()

    def forward(self, q: Queries, k: KeysOf, v: KeysOf, mask: Mask, bias: Bias, state: State) -> Queries:
        q, k = feature(q), feature(k)
        if mask.keys is not None:
            k = k * mask.keys[:, None, :, None]
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)  # the last column sums the weights
        total = k.transpose(-1, -2) @ v
        mixed = self.past(q, k, v) if mask.causal and q.size(2) > 1 else q @ total
        earlier = state.add((total,))
        if earlier is not None:
            mixed = mixed + q @ earlier[0]
        return mixed[..., :-1] / mixed[..., -1:]

    def past(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Causal sums chunk by chunk: n x chunk inside a chunk, a running e x e sum between them."""
        length, older = k.size(2), k.size(2) - q.size(2)  # keys of an earlier segment have no queries
        q = F.pad(q, (0, 0, older, 0))
        q, k, v = (F.pad(x, (0, 0, 0, -length % self.chunk)).unflatten(2, (-1, self.chunk)) for x in (q, k, v))
        sums = k.transpose(-1, -2) @ v
        before = sums.cumsum(dim=2) - sums
        inside = (q @ k.transpose(-1, -2)).tril() @ v
        return (inside + q @ before).flatten(2, 3)[:, :, older:length]

    def reference(self) -> Kernel:
        return ExplicitLinearKernel().train(self.training)


class ExplicitLinearKernel(Kernel):
    """The same as a matrix of weights, n² of them, with all keys remembered while decoding."""

    biased: ClassVar[bool] = False
    rotated: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Identity()

    def forward(self, q: Queries, k: KeysOf, v: KeysOf, mask: Mask, bias: Bias, state: State) -> Queries:
        fit = feature(q) @ feature(k).transpose(-1, -2)
        seen = mask.dense()
        fit = fit if seen is None else fit * seen
        return self.weights(fit / fit.sum(dim=-1, keepdim=True)) @ v


@dataclass(frozen=True)
class Linear:
    """Attention in linear time; cannot use positions that act on scores."""

    kind: Literal["linear"] = "linear"
    chunk: int = 64  # tokens processed together in the causal form

    def __post_init__(self) -> None:
        check_range("chunk", self.chunk, 1, 1_000_000)

    def build(self, size: Size, dropout: float) -> Kernel:
        return LinearKernel(self.chunk)
