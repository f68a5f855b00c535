"""How the parts of a design are put together."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from headway.model.attention import Attention
from headway.model.base_design import Design
from headway.model.blocks import DecoderBlock, EncoderBlock
from headway.model.kernels import Mixing
from headway.model.positions import NoPositions, Position, Positions
from headway.model.size import Size
from headway.model.stacks import Stack

S = TypeVar("S", bound=Stack)


def encoder_stack(kind: type[S], design: Design, size: Size, layers: int, mixing: Mixing) -> S:
    """Build a stack with self-attention alone."""
    decoder = size.encoder_layers == 0
    shared = design.positions.build(size)

    def block() -> nn.Module:
        attention = attention_layer(design, size, layer_positions(design, size, shared), mixing)
        feed = design.feed_forward.build(size, design.bias, design.drop)
        return EncoderBlock(attention, feed, residuals(design, size, 2, decoder))

    return finish(kind, design, shared, [block() for _ in range(layers)])


def decoder_stack(kind: type[S], design: Design, size: Size, cross: Mixing) -> S:
    """Build a stack with self-attention and attention to a source."""
    shared = design.positions.build(size)

    def block() -> nn.Module:
        own = attention_layer(design, size, layer_positions(design, size, shared), design.attention)
        source = attention_layer(design, size, NoPositions().build(size), cross)
        feed = design.feed_forward.build(size, design.bias, design.drop)
        return DecoderBlock(own, source, feed, residuals(design, size, 3, decoder=True))

    return finish(kind, design, shared, [block() for _ in range(size.decoder_layers)])


def finish(kind: type[S], design: Design, shared: Positions, blocks: list[nn.Module]) -> S:
    last_norm = design.norm.build(design.width) if design.residual.last_norm else None
    bottom = Positions() if shared.per_layer else shared
    return kind(bottom, blocks, last_norm, design.drop(design.on_embeddings))


def layer_positions(design: Design, size: Size, shared: Positions) -> Positions:
    """Return a layer's own positions, the stack's, or none where they were added to the embeddings."""
    if shared.per_layer:
        return design.positions.build(size)
    return shared if shared.adds_bias or shared.rotates else Positions()


def attention_layer(design: Design, size: Size, positions: Positions, mixing: Mixing) -> Attention:
    return Attention(size, positions, mixing.build(size, design.attention_dropout), design.bias)


def residuals(design: Design, size: Size, count: int, decoder: bool) -> list[nn.Module]:
    return [design.residual.build(design.norm, size, design.drop(design.dropout), decoder) for _ in range(count)]


def check_pair(position: Position, mixing: Mixing, size: Size, causal: bool) -> None:
    reason = unsupported(position, mixing, size, causal)
    if reason is not None:
        raise ValueError(reason)


def unsupported(position: Position, mixing: Mixing, size: Size, causal: bool) -> str | None:
    """Return why this pair would be wrong, or None."""
    with torch.device("meta"):  # no memory, no random numbers
        positions, kernel = position.build(size), mixing.build(size, 0.0)
    if positions.adds_bias and not kernel.biased:
        return f"{mixing.kind} attention cannot use {position.kind} positions: they add a bias to scores"
    if positions.rotates and not kernel.rotated:
        because = "they rotate queries and keys, and its weights do not depend on the angle alone"
        return f"{mixing.kind} attention cannot use {position.kind} positions: {because}"
    if causal and not kernel.causal:
        return f"{mixing.kind} attention cannot hide the future; use it in the encoder (encoder_attention)"
    if positions.scaled is not None and positions.scaled != kernel.scaled:
        need = "divides scores by the root of the head width" if positions.scaled else "leaves scores unscaled"
        hint = f'attention = {{ kind = "fused", scaled = {str(positions.scaled).lower()} }}'
        return f"{position.kind} positions need attention that {need}: set {hint}"
    return None
