"""N layers and a last norm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from headway.model.blocks import BlockState, DecoderBlock, EncoderBlock, Place, Source
from headway.model.norms import Real
from headway.model.positions import Positions
from headway.model.states import NOTHING, State

Stream = Float[Tensor, "b t d"]


class Stack(nn.Module):
    """What encoder, decoder and language model share: positions at the bottom, layers, a last norm at the top."""

    def __init__(self, positions: Positions, blocks: list[nn.Module], last_norm: nn.Module | None, dropout: nn.Module):
        super().__init__()
        self.positions, self.dropout = positions, dropout
        self.layers = nn.ModuleList(blocks)
        self.last_norm = last_norm

    def enter(self, x: Stream, here: Place) -> Stream:
        return self.dropout(self.positions.embed(x, here.pos))

    def leave(self, x: Stream, real: Real) -> Stream:
        return x if self.last_norm is None else self.last_norm(x, real)

    def forget(self) -> list[BlockState]:
        """Training and encoding remember nothing. (Named here, not by default values: torch.compile must see it.)"""
        return [BlockState(NOTHING, NOTHING) for _ in self.layers]

    def remember(self, room: Callable[[], State]) -> list[BlockState]:
        """What each layer must remember while decoding."""
        blocks = cast("Iterable[EncoderBlock | DecoderBlock]", self.layers)
        return [BlockState(block.self_attention.state(room)) for block in blocks]


class Encoder(Stack):
    """Layers that look around in one sequence: everywhere, or back only as in a language model."""

    def forward(
        self, x: Stream, here: Place, states: Sequence[BlockState] = (), before: Sequence[Source | None] = ()
    ) -> Stream:
        return self.leave(self.every_layer(x, here, states, before)[-1], here.real)

    def every_layer(
        self, x: Stream, here: Place, states: Sequence[BlockState] = (), before: Sequence[Source | None] = ()
    ) -> list[Stream]:
        """The output of each layer, before the last norm."""
        states = states or self.forget()
        before = before or [None] * len(self.layers)
        x, outputs = self.enter(x, here), []
        for layer, state, earlier in zip(self.layers, states, before, strict=True):
            x = layer(x, here, state, earlier)
            outputs.append(x)
        return outputs


class Decoder(Stack):
    """Layers that look back and at the source; each has its own view of the source."""

    def forward(self, x: Stream, sources: Sequence[Source], here: Place, states: Sequence[BlockState] = ()) -> Stream:
        states = states or self.forget()
        x = self.enter(x, here)
        for layer, source, state in zip(self.layers, sources, states, strict=True):
            x = layer(x, source, here, state)
        return self.leave(x, here.real)
