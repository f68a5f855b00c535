"""N layers and a last norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from headway.model.blocks import BlockState, DecoderBlock, EncoderBlock, MakeState, TokenInfo
from headway.model.norms import Real
from headway.model.positions import Positions
from headway.model.states import NOTHING

Stream = Float[Tensor, "b t d"]


class Stack(nn.Module):
    """What encoders and decoders share: positions at the bottom, layers, and a last norm at the top."""

    def __init__(self, positions: Positions, blocks: list[nn.Module], last_norm: nn.Module | None, dropout: nn.Module):
        super().__init__()
        self.positions, self.dropout = positions, dropout
        self.layers = nn.ModuleList(blocks)
        self.last_norm = last_norm

    def add_positions(self, x: Stream, info: TokenInfo) -> Stream:
        return self.dropout(self.positions.embed(x, info.pos))

    def normalise(self, x: Stream, real: Real) -> Stream:
        """Return the output of a layer after the last norm, if there is one."""
        return x if self.last_norm is None else self.last_norm(x, real)

    def empty_states(self) -> list[BlockState]:
        """Return states that store nothing, for training and encoding.

        They are named here and not by default values, which torch.compile cannot see.
        """
        return [BlockState(NOTHING, NOTHING) for _ in self.layers]

    def decoding_states(self, make_state: MakeState) -> list[BlockState]:
        """Return what each layer stores while decoding."""
        blocks = cast("Iterable[EncoderBlock | DecoderBlock]", self.layers)
        return [BlockState(block.self_attention.state(make_state)) for block in blocks]


class Encoder(Stack):
    """Layers whose self-attention sees the whole sequence."""

    def forward(self, x: Stream, info: TokenInfo) -> Stream:
        return self.normalise(self.every_layer(x, info)[-1], info.real)

    def every_layer(self, x: Stream, info: TokenInfo) -> list[Stream]:
        """Return the output of each layer, before the last norm."""
        x, outputs = self.add_positions(x, info), list[Stream]()
        for layer, state in zip(self.layers, self.empty_states(), strict=True):
            x = layer(x, info, state)
            outputs.append(x)
        return outputs
