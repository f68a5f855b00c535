"""Encoder and decoder layers: sublayers inside residuals (figure 1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.attention import Attention
from headway.model.mask import Mask
from headway.model.norms import Real
from headway.model.states import NOTHING, State

Stream = Float[Tensor, "b t d"]


@dataclass(frozen=True)
class Place:
    """Where tokens stand and what they may see of themselves."""

    pos: Int[Tensor, "#b t"]
    mask: Mask
    real: Real = None  # True at tokens that are not padding


@dataclass(frozen=True)
class Source:
    """What a decoder layer reads: the encoder's vectors, where they stand and which are real."""

    x: Float[Tensor, "b s d"]
    pos: Int[Tensor, "#b s"]
    mask: Mask

    def select(self, sentences: Int[Tensor, "m"]) -> Source:
        return Source(self.x[sentences], self.pos, self.mask.select(sentences))


@dataclass
class BlockState:
    """What one decoder layer remembers."""

    own: State = NOTHING
    source: State = NOTHING
    looked_at: Tensor | None = None  # the vectors its self-attention read, for the next segment's memory


class EncoderBlock(nn.Module):
    """Look around, think. As a language model's layer it looks back only, and may read an earlier segment's memory."""

    def __init__(self, attention: Attention, feed_forward: nn.Module, residuals: list[nn.Module]) -> None:
        super().__init__()
        self.self_attention, self.feed_forward = attention, feed_forward
        self.around_self, self.around_feed = residuals

    def forward(self, x: Stream, here: Place, state: BlockState, before: Source | None = None) -> Stream:
        x = self.around_self(x, lambda h: self.look(h, here, state, before), here.real)
        return self.around_feed(x, self.feed_forward, here.real)

    def look(self, h: Stream, here: Place, state: BlockState, before: Source | None) -> Stream:
        state.looked_at = h
        if before is None:
            return self.self_attention(h, h, here.mask, here.pos, here.pos, state.own)
        x, pos = torch.cat([before.x, h], dim=1), torch.cat([before.pos, here.pos], dim=1)
        return self.self_attention(h, x, here.mask, here.pos, pos, state.own)


class DecoderBlock(nn.Module):
    """Look back, look at the source, think."""

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

    def forward(self, x: Stream, source: Source, here: Place, state: BlockState) -> Stream:
        own, pos = self.self_attention, here.pos
        x = self.around_self(x, lambda h: own(h, h, here.mask, pos, pos, state.own), here.real)
        cross = self.cross_attention
        x = self.around_source(x, lambda h: cross(h, source.x, source.mask, pos, source.pos, state.source), here.real)
        return self.around_feed(x, self.feed_forward, here.real)
