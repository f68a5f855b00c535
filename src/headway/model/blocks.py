"""Encoder and decoder layers: sublayers inside residuals (figure 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.attention import Attention
from headway.model.encoded import Memory
from headway.model.mask import Mask
from headway.model.norms import Real
from headway.model.states import NOTHING, State

Stream = Float[Tensor, "b t d"]


MakeState = Callable[[], State]  # makes storage for the keys and values of one attention layer


def positions_of(x: Tensor, start: int = 0) -> Int[Tensor, "1 t"]:
    """Return the positions of tokens or vectors [b t ...], counted from `start`."""
    return torch.arange(start, start + x.size(1), device=x.device)[None]


@dataclass(frozen=True)
class TokenInfo:
    """What a layer must know of its tokens: their positions, the mask of self-attention, and which are real."""

    pos: Int[Tensor, "#b t"]
    mask: Mask
    real: Real = None  # True at tokens that are not padding


@dataclass
class BlockState:
    """The storage of one layer while it decodes."""

    own: State = NOTHING  # of self-attention
    source: State = NOTHING  # of cross-attention
    attention_input: Tensor | None = None  # the vectors that self-attention read: the memory of the next segment


class EncoderBlock(nn.Module):
    """Self-attention and feed-forward. In a language model it is causal and may read an earlier segment."""

    def __init__(self, attention: Attention, feed_forward: nn.Module, residuals: list[nn.Module]) -> None:
        super().__init__()
        self.self_attention, self.feed_forward = attention, feed_forward
        self.around_self, self.around_feed = residuals

    def forward(self, x: Stream, info: TokenInfo, state: BlockState, before: Memory | None = None) -> Stream:
        def attend(h: Stream) -> Stream:
            return self.attend(h, info, state, before)

        x = self.around_self(x, attend, info.real)
        return self.around_feed(x, self.feed_forward, info.real)

    def attend(self, h: Stream, info: TokenInfo, state: BlockState, before: Memory | None) -> Stream:
        state.attention_input = h
        if before is None:
            return self.self_attention(h, h, info.mask, info.pos, info.pos, state.own)
        x, pos = torch.cat([before.x, h], dim=1), torch.cat([before.pos, info.pos], dim=1)
        return self.self_attention(h, x, info.mask, info.pos, pos, state.own)


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention to the source, feed-forward."""

    def __init__(
        self,
        attention: Attention,
        cross_attention: Attention,
        feed_forward: nn.Module,
        residuals: list[nn.Module],
    ) -> None:
        super().__init__()
        self.self_attention, self.cross_attention, self.feed_forward = (
            attention,
            cross_attention,
            feed_forward,
        )
        self.around_self, self.around_source, self.around_feed = residuals

    def forward(self, x: Stream, memory: Memory, info: TokenInfo, state: BlockState) -> Stream:
        pos = info.pos

        def attend(h: Stream) -> Stream:
            return self.self_attention(h, h, info.mask, pos, pos, state.own)

        def attend_to_source(h: Stream) -> Stream:
            return self.cross_attention(h, memory.x, memory.mask, pos, memory.pos, state.source)

        x = self.around_self(x, attend, info.real)
        x = self.around_source(x, attend_to_source, info.real)
        return self.around_feed(x, self.feed_forward, info.real)
