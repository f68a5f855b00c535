"""What the foreign layouts share: pairs of names, activations, and the refusal of what a layout cannot say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.errors import UsageError
from headway.model.design import Design
from headway.model.feed_forward import FeedForward, Gelu, Relu, Swish
from headway.storage.weights import NamedTensors

Table = Mapping[str, Any]

BOTH, WEIGHT = ("weight", "bias"), ("weight",)
ACTIVATIONS: dict[str, FeedForward] = {
    "relu": Relu(),
    "gelu": Gelu(),
    "gelu_new": Gelu(tanh=True),
    "gelu_pytorch_tanh": Gelu(tanh=True),
    "swish": Swish(),
    "silu": Swish(),
}


class Pair(NamedTuple):
    """Our tensor is theirs stacked under one another."""

    ours: str
    theirs: tuple[str, ...]
    rows: tuple[int, ...] = ()  # how many rows each has, where there are several


def read(pairs: Sequence[Pair], state: NamedTensors) -> dict[str, Tensor]:
    missing = [name for pair in pairs for name in pair.theirs if name not in state]
    if missing:
        raise UsageError(f"{len(missing)} tensors are missing, the first is {missing[0]}: not this kind of model")
    return {pair.ours: torch.cat([state[name] for name in pair.theirs]) for pair in pairs}


def write(pairs: Sequence[Pair], tensors: NamedTensors) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    for ours, theirs, rows in pairs:
        parts = tensors[ours].split(list(rows)) if rows else (tensors[ours],)
        state |= {name: part.clone() for name, part in zip(theirs, parts, strict=True)}
    return state


def alike(ours: str, theirs: str, leaves: Sequence[str]) -> Iterator[Pair]:
    yield from (Pair(f"{ours}.{leaf}", (f"{theirs}.{leaf}",)) for leaf in leaves)


def attention(design: Design, ours: str, theirs: str, out: str, leaves: Sequence[str]) -> Iterator[Pair]:
    size = design.size()
    rows = tuple(heads * size.head_width for heads in (size.heads, size.key_heads, size.key_heads))
    for leaf in leaves:
        yield Pair(f"{ours}.qkv.{leaf}", tuple(f"{theirs}.{x}_proj.{leaf}" for x in "qkv"), rows)
    yield from alike(f"{ours}.out", f"{theirs}.{out}", leaves)


def pick_pieces(tensors: NamedTensors, pieces: Sequence[int]) -> dict[str, Tensor]:
    """The same model with its vocabulary in another order: piece i of the result was pieces[i]."""
    chosen = torch.tensor(pieces)
    vocabulary = ("embedding.weight", "head.weight", "head.bias")
    return {name: tensor[chosen] if name.endswith(vocabulary) else tensor for name, tensor in tensors.items()}


# ---------------------------------------------------------------- what a layout cannot say


class Facts(dict[str, Any]):
    """The contents of a foreign config.json; what it lacks is named."""

    def __missing__(self, name: str) -> Any:
        raise UsageError(f"the configuration has no {name}; its model_type is {self.get('model_type', 'unset')!r}")


def need(layout: str, what: str, given: object, allowed: object) -> None:
    if given != allowed:
        raise UsageError(f"{layout} layout: {what} is {given!r}; only {allowed!r} can be exchanged")


def activation(layout: str, name: str, width: int, dropout: int | float) -> FeedForward:
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UsageError(f"{layout} layout: the activation is {name!r}; headway knows {known}")
    return replace(ACTIVATIONS[name], width=width, dropout=float(dropout))


def activation_name(layout: str, kind: FeedForward) -> str:
    plain = replace(kind, width=None, dropout=0.0)
    for name, known in ACTIVATIONS.items():
        if known == plain:
            return name
    raise UsageError(f"{layout} layout: feed_forward is {kind.kind!r}; only relu, gelu and swish can be exchanged")


def inner_width(state: NamedTensors, down: str) -> int:
    return state[down].size(1)
