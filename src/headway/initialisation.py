"""How weights begin."""

from __future__ import annotations

import torch
from torch import nn

from headway.parts.attention import Attention
from headway.parts.embedding import Embedding


def initialise(model: nn.Module, gains: dict[nn.Module, float]) -> None:
    """Glorot's uniform for matrices, width^-0.5 for embeddings, zero for biases; DeepNorm's gain where it applies."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for stack, gain in gains.items():
        for module in stack.modules():
            if isinstance(module, Attention):
                initialise_attention(module, gain)
            elif hasattr(module, "up") and hasattr(module, "down"):
                scale(module.up, gain)
                scale(module.down, gain)
    for module in model.modules():
        if isinstance(module, Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


@torch.no_grad()
def initialise_attention(attention: Attention, gain: float) -> None:
    """W_Q, W_K and W_V share one matrix but begin as three."""
    keys = attention.key_heads * attention.head_width
    for part in attention.qkv.weight.split([attention.query_width, keys, keys]):
        nn.init.xavier_uniform_(part)
    attention.qkv.weight[-keys:].mul_(gain)
    attention.out.weight.mul_(gain)


@torch.no_grad()
def scale(linear: nn.Module, gain: float) -> None:
    if gain != 1.0 and isinstance(linear, nn.Linear):
        linear.weight.mul_(gain)
