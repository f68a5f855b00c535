"""Self-attention of a captured decoding step: the model's own kernels are exchanged for ones that read slots."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import chain
from typing import TypeVar

from torch import nn

from headway.engines.cuda import indexed_attention
from headway.engines.cuda.states import Fixed, Indexed
from headway.model.attention import Attention
from headway.model.blocks import DecoderBlock
from headway.model.kernels.base import Bias, Kernel, KeysOf, Queries
from headway.model.kernels.fused import FusedKernel, fits_short, short_attention
from headway.model.mask import Mask
from headway.model.models import EncoderDecoder
from headway.model.states import State

try:  # on machines with Triton
    from headway.engines.cuda import indexed_keys
except ImportError:
    indexed_keys = None

M = TypeVar("M", bound=nn.Module)


class SlotKernel(FusedKernel):
    """The fused kernel for keys in slots: where they fit into one program, only slots that are written are read."""

    def forward(self, q: Queries, k: KeysOf, v: KeysOf, mask: Mask, bias: Bias, state: State) -> Queries:
        slots = isinstance(state, Fixed) and mask.causal
        if slots and short_attention is not None and bias is None and fits_short(q, k):
            return short_attention(q, k, v, mask.keys, mask.q_pos, True, self.scale)
        return super().forward(q, k, v, mask, bias, state)


class IndexedKernel(FusedKernel):
    """The fused kernel for keys that are read where they were written. It adds no bias."""

    def state(self, room: Callable[[], State]) -> State:
        state = room()
        return Indexed(state.room) if isinstance(state, Fixed) else state

    def forward(self, q: Queries, k: KeysOf, v: KeysOf, mask: Mask, bias: Bias, state: State) -> Queries:
        if not isinstance(state, Indexed) or mask.q_pos is None:
            return super().forward(q, k, v, mask, bias, state)
        module = indexed_keys if q.is_cuda and indexed_keys is not None else indexed_attention
        return module.slot_attention(q, k, v, mask.q_pos, state.origin, self.scale)


def with_step_kernels(model: EncoderDecoder, indexed: bool) -> EncoderDecoder:
    """A copy with the same weights, not copies of them, whose decoder reads keys in slots; `indexed` if it can."""
    twin = sharing_weights(model)
    for layer in twin.transformer.layers:
        assert isinstance(layer, DecoderBlock)
        layer.self_attention.kernel = step_kernel(layer.self_attention, indexed)
    return twin


def step_kernel(attention: Attention, indexed: bool) -> Kernel:
    kernel = attention.kernel
    if type(kernel) is not FusedKernel:
        return kernel
    kind = IndexedKernel if indexed and not attention.positions.adds_bias else SlotKernel
    return kind(kernel.scale, kernel.scaled, kernel.dropout).train(kernel.training)


def sharing_weights(model: M) -> M:
    """A copy of the modules with the very same parameters and buffers."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())})
