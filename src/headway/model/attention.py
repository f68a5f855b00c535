"""Multi-head attention: one layer for self, masked self and cross, for every kernel and position scheme."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.kernels import Kernel
from headway.model.mask import Mask
from headway.model.positions import Positions
from headway.model.size import Size
from headway.model.states import Keys, State


class Attention(nn.Module):
    """Project, place, remember, mix, project (section 3.2.2). With fewer key heads it is grouped attention."""

    def __init__(self, size: Size, positions: Positions, kernel: Kernel, bias: bool) -> None:
        super().__init__()
        self.heads, self.key_heads, self.head_width = size.heads, size.key_heads, size.head_width
        self.positions, self.kernel = positions, kernel
        self.query_width = size.heads * size.head_width
        key_width = size.key_heads * size.head_width
        self.qkv = nn.Linear(size.width, self.query_width + 2 * key_width, bias=bias)  # W_Q, W_K, W_V in one matrix
        self.out = nn.Linear(self.query_width, size.width, bias=bias)

    @property
    def widths(self) -> tuple[int, int, int]:
        """The rows of W_Q, W_K and W_V in `qkv`."""
        keys = self.key_heads * self.head_width
        return self.query_width, keys, keys

    def forward(
        self,
        x: Float[Tensor, "b t d"],
        source: Float[Tensor, "c s d"],
        mask: Mask,
        x_pos: Int[Tensor, "#b t"],
        source_pos: Int[Tensor, "#c s"],
        state: State,
    ) -> Float[Tensor, "b t d"]:
        queries, project = self.project(x, source, source_pos)
        q = self.positions.rotate(self.split(queries, self.heads), x_pos)
        k, v, k_pos = state.read(project)
        k, v = self.spread(k), self.spread(v)
        q, q_pos = fold(q, x_pos, k.size(0))
        bias = self.positions.bias(q, k, q_pos, k_pos)
        mixed = unfold(self.kernel(q, k, v, mask.at(q_pos, k_pos), bias, state), x.size(0))
        return self.out(mixed.transpose(1, 2).flatten(2))

    def state(self, room: Callable[[], State]) -> State:
        """Return the storage of this layer while decoding; an index only where its kernel can follow one."""
        state = self.kernel.state(room)
        return state if self.kernel.indexed and not self.positions.adds_bias else state.unindexed()

    def project(self, x: Tensor, source: Tensor, source_pos: Tensor) -> tuple[Tensor, Callable[[], Keys]]:
        """Queries now; keys and values when the state asks. All three in one product when x looks at itself."""
        if source is x:
            queries, rest = self.qkv(x).split([self.query_width, self.qkv.out_features - self.query_width], dim=-1)
            return queries, lambda: self.keys(rest, source_pos)
        weight, bias = self.qkv.weight, bias_of(self.qkv)
        q_bias, kv_bias = (None, None) if bias is None else (bias[: self.query_width], bias[self.query_width :])
        queries = F.linear(x, weight[: self.query_width], q_bias)
        return queries, lambda: self.keys(F.linear(source, weight[self.query_width :], kv_bias), source_pos)

    def keys(self, projected: Tensor, pos: Tensor) -> Keys:
        k, v = projected.chunk(2, dim=-1)
        return Keys(self.positions.rotate(self.split(k, self.key_heads), pos), self.split(v, self.key_heads), pos)

    def split(self, x: Tensor, heads: int) -> Tensor:
        """[b t h·e] -> [b h t e]"""
        return torch.unflatten(x, -1, (heads, self.head_width)).transpose(1, 2)

    def spread(self, x: Tensor) -> Tensor:
        """Each key head serves a group of query heads."""
        groups = self.heads // self.key_heads
        return x if groups == 1 else x.repeat_interleave(groups, dim=1)


def fold(
    q: Float[Tensor, "n h t e"], pos: Int[Tensor, "#n t"], sentences: int
) -> tuple[Float[Tensor, "b h qs e"], Int[Tensor, "#b qs"]]:
    """The hypotheses of one sentence become queries of one memory, which is then read once for all of them."""
    rows = q.size(0)
    if rows == sentences:
        return q, pos
    groups = (sentences, rows // sentences)
    q_pos = torch.unflatten(pos.expand(rows, -1), 0, groups).flatten(1)
    return torch.unflatten(q, 0, groups).transpose(1, 2).flatten(2, 3), q_pos


def unfold(mixed: Float[Tensor, "b h qs e"], rows: int) -> Float[Tensor, "n h t e"]:
    beam = rows // mixed.size(0)
    return mixed if beam == 1 else torch.unflatten(mixed, 2, (beam, -1)).transpose(1, 2).flatten(0, 1)


def bias_of(linear: nn.Linear) -> nn.Parameter | None:
    """Return the bias of a linear layer. torch's own annotation leaves out that there may be none."""
    return linear.bias
