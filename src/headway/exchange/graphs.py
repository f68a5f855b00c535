"""The model cut into graphs: the source is read once, then every step is given what earlier steps remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.blocks import BlockState, DecoderBlock, TokenInfo
from headway.model.encoded import Memory
from headway.model.inputs import real_tokens
from headway.model.mask import Mask
from headway.model.models import EncoderDecoder, LanguageModel
from headway.model.states import Keys, State

KeysOf = Float[Tensor, "b g k e"]


class Past(State):
    """Keys and values of earlier steps, given from outside; afterwards those of this step too."""

    def __init__(self, k: KeysOf, v: KeysOf) -> None:
        self.held = (k, v)

    def read(self, project: Callable[[], Keys]) -> Keys:
        new = project()
        k, v = (torch.cat([old, x], dim=2) for old, x in zip(self.held, new[:2], strict=True))
        self.held = (k, v)
        return Keys(k, v, torch.arange(k.size(2), device=k.device)[None])


class Given(State):
    """Keys and values of the source, made beforehand."""

    def __init__(self, k: KeysOf, v: KeysOf) -> None:
        self.held = (k, v)

    def read(self, project: Callable[[], Keys]) -> Keys:
        k, v = self.held
        return Keys(k, v, torch.arange(k.size(2), device=k.device)[None])


class ReadGraph(nn.Module):
    """Source pieces in; keys and values for every decoder layer out."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Int[Tensor, "b s"]) -> tuple[Tensor, ...]:
        blocks = cast("Sequence[DecoderBlock]", self.model.transformer.layers)
        memories = zip(blocks, self.model.encode(source).memories, strict=True)
        return tuple(x for block, memory in memories for x in read_keys(block, memory))


def read_keys(block: DecoderBlock, memory: Memory) -> tuple[KeysOf, KeysOf]:
    _, project = block.cross_attention.project(memory.x[:, :1], memory.x, memory.pos)
    k, v, _ = project()
    return k, v


class StepGraph(nn.Module):
    """A translator's step: the last piece of every row and all that is remembered in; scores and memory out."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, last: Int[Tensor, "n 1"], source: Int[Tensor, "n s"], past: list[Tensor], keys: list[Tensor]
    ) -> tuple[Tensor, ...]:
        own = [Past(k, v) for k, v in pairs(past)]
        states = [BlockState(state, Given(k, v)) for state, (k, v) in zip(own, pairs(keys), strict=True)]
        x, info = self.model.target_embedding.embed(last), newest(past)
        memory = Memory(x, info.pos, Mask(keys=real_tokens(source)))  # its keys are given: its vectors are not read
        hidden = self.model.transformer.run(x, info, [memory] * len(states), states)
        return (self.model.head(hidden)[:, -1], *(x for state in own for x in state.held))


class ContinueGraph(nn.Module):
    """A language model's step."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, last: Int[Tensor, "n 1"], past: list[Tensor]) -> tuple[Tensor, ...]:
        own = [Past(k, v) for k, v in pairs(past)]
        states = [BlockState(state) for state in own]
        hidden = self.model.transformer.run(self.model.embedding.embed(last), newest(past), [], states)
        return (self.model.head(hidden)[:, -1], *(x for state in own for x in state.held))


def newest(past: list[Tensor]) -> TokenInfo:
    """Return the position of the last token, after all stored ones, which it may attend to."""
    return TokenInfo(torch.arange(past[0].size(2) + 1, device=past[0].device)[None, -1:], Mask())


def pairs(flat: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
