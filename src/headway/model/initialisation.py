"""How weights begin."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from headway.model.attention import Attention, bias_of
from headway.model.feed_forward import ReluLayer, SwigluLayer
from headway.model.inputs import TokenEmbedding
from headway.model.outputs import OutputLayer


def initialise(model: nn.Module, gains: Mapping[str, float]) -> None:
    """Glorot's uniform for matrices, width^-0.5 for vocabularies, zero for biases.

    `gains` scales values, outputs and feed-forward layers of the parts it names (DeepNorm).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            initialise_linear(module)
        elif isinstance(module, TokenEmbedding | OutputLayer):
            nn.init.normal_(module.weight, std=module.weight.size(1) ** -0.5)
    for stack, gain in gains.items():
        for module in model.get_submodule(stack).modules():
            if isinstance(module, Attention):
                initialise_attention(module, gain)
            elif isinstance(module, ReluLayer | SwigluLayer):
                scale(module.up, gain)
                scale(module.down, gain)


def initialise_linear(linear: nn.Linear) -> None:
    nn.init.xavier_uniform_(linear.weight)
    if (bias := bias_of(linear)) is not None:
        nn.init.zeros_(bias)


def initialise_attention(attention: Attention, gain: float) -> None:
    """W_Q, W_K and W_V share one matrix but begin as three."""
    parts = attention.qkv.weight.detach().split_with_sizes(attention.widths)
    for part in parts:
        nn.init.xavier_uniform_(part)
    parts[2].mul_(gain)
    scale(attention.out, gain)


@torch.no_grad()
def scale(linear: nn.Linear, gain: float) -> None:
    linear.weight.mul_(gain)
