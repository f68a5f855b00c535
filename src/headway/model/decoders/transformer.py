"""The Transformer as a decoder: masked self-attention, and cross-attention if there is a source (section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.errors import UsageError
from headway.model.assembly import decoder_stack, encoder_stack
from headway.model.base_design import Design
from headway.model.blocks import BlockState, MakeState, TokenInfo, positions_of
from headway.model.decoders.base import DecoderLayer, DecoderState, Vectors
from headway.model.encoded import EncodedSource, Memory
from headway.model.inputs.base import Embedded
from headway.model.kernels import Mixing
from headway.model.mask import Mask
from headway.model.size import Size
from headway.model.stacks import Stack
from headway.model.states import Once


@dataclass
class TransformerState(DecoderState):
    """Keys and values of every layer, and the position of each hypothesis."""

    layers: list[BlockState]
    pos: Int[Tensor, "#n 1"]  # of the next token
    mask: Mask  # which stored keys the next token may attend to

    def select_hypotheses(self, rows: Int[Tensor, "n"]) -> None:
        for layer in self.layers:
            layer.own.select(rows)
        self.pos = self.pos if len(self.pos) == 1 else self.pos[rows]

    def select_source(self, sentences: Int[Tensor, "m"]) -> None:
        for layer in self.layers:
            layer.source.select(sentences)
        super().select_source(sentences)


class TransformerDecoder(Stack):
    """Layers that attend to earlier positions and to the source; each layer has its own memory of the source."""

    def forward(self, target: Embedded, source: EncodedSource) -> Vectors:
        """Padding stands at the end, so the causal mask already hides it from every real token."""
        info = TokenInfo(positions_of(target.vectors), Mask(causal=True), target.real)
        return self.run(target.vectors, info, source.memories, self.empty_states())

    def start(self, source: EncodedSource, make_state: MakeState) -> TransformerState:
        layers = self.decoding_states(make_state)
        for layer in layers:
            layer.source = Once()
        beginning = torch.zeros(1, 1, dtype=torch.long, device=next(self.parameters()).device)
        return TransformerState(source, layers, beginning, make_state().step_mask)

    def step(self, x: Float[Tensor, "n t d"], state: DecoderState) -> Float[Tensor, "n t d"]:
        assert isinstance(state, TransformerState)
        length = x.size(1)
        pos = state.pos + torch.arange(length, device=x.device) if length > 1 else state.pos
        info = TokenInfo(pos, state.mask if length == 1 else Mask(causal=True))
        hidden = self.run(x, info, state.source.memories, state.layers)
        state.pos = state.pos + length
        return hidden

    def run(self, x: Vectors, info: TokenInfo, memories: Sequence[Memory], states: Sequence[BlockState]) -> Vectors:
        """Return what leaves the last layer."""
        x = self.add_positions(x, info)
        for layer, memory, state in zip(self.layers, memories, states, strict=True):
            x = layer(x, memory, info, state)
        return self.normalise(x, info.real)


class CausalTransformer(TransformerDecoder):
    """The decoder of a language model: there is no source. Layers may attend to earlier segments (Transformer-XL)."""

    def run(self, x: Vectors, info: TokenInfo, memories: Sequence[Memory], states: Sequence[BlockState]) -> Vectors:
        earlier = memories or [None] * len(self.layers)
        x = self.add_positions(x, info)
        for layer, memory, state in zip(self.layers, earlier, states, strict=True):
            x = layer(x, info, state, memory)
        return self.normalise(x, info.real)

    def segment(
        self,
        target: Embedded,
        earlier: Sequence[Float[Tensor, "b m d"]],
        lengths: Int[Tensor, "b"] | None,
        longest: int,
    ) -> tuple[Vectors, list[Float[Tensor, "b n d"]]]:
        """Return the hidden vectors of a segment, and for each layer the memory of the next segment.

        `earlier` holds each layer's memory, whose positions are those just before this segment. `lengths` says how many
        of the newest vectors in each row of it are real; unset: all. The new memory has up to `longest` vectors; no
        gradient flows into it.
        """
        pos, states = positions_of(target.vectors), self.empty_states()
        before = [Memory(x, positions_of(x, -x.size(1)), Mask()) for x in earlier]
        every_pos = [*(memory.pos for memory in before[:1]), pos]
        seen = None if lengths is None else torch.cat(every_pos, dim=1) >= -lengths[:, None]
        hidden = self.run(target.vectors, TokenInfo(pos, Mask(keys=seen, causal=True), target.real), before, states)
        read = [state.attention_input for state in states if state.attention_input is not None]
        joined = [torch.cat(both, dim=1) for both in zip(earlier, read, strict=True)] if earlier else read
        return hidden, [x[:, max(0, x.size(1) - longest) :].detach() for x in joined]


def transformer_of(decoder: DecoderLayer | nn.Module) -> TransformerDecoder:
    """Return the decoder, for those who must know its layers; refuse a decoder of another kind."""
    if not isinstance(decoder, TransformerDecoder):
        raise UsageError(f"this works for Transformer decoders only; the model has a {type(decoder).__name__}")
    return decoder


@dataclass(frozen=True)
class Transformer:
    """Attention and feed-forward layers, the paper's."""

    kind: Literal["transformer"] = "transformer"
    keeps_memory: ClassVar[bool] = True  # can attend to earlier segments in a language model

    def build(self, design: Design, size: Size, cross_attention: Mixing | None) -> DecoderLayer:
        """Build the module. `cross_attention` is how it attends to the source; None: there is no source."""
        if cross_attention is None:
            return encoder_stack(CausalTransformer, design, size, size.decoder_layers, design.attention)
        return decoder_stack(TransformerDecoder, design, size, cross_attention)
