"""Looking inside a model while it works, and silencing heads: no argument, no second model, nothing left behind.

with record(model) as seen:
    model(source, target)
seen.attention("decoder.layers.0.cross_attention")  # [b h q k]
"""

from __future__ import annotations

import copy
import difflib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle

from headway.errors import UsageError
from headway.model.attention import Attention, unfold
from headway.model.blocks import DecoderBlock, EncoderBlock
from headway.model.kernels import Kernel

Weights = Float[Tensor, "b h q k"]
M = TypeVar("M", bound=nn.Module)
Head = tuple[str, int]  # the name of an attention layer and the number of a head


@dataclass
class Seen:
    """What passed through a model, by the names of its layers; one entry for every call of a layer.

    A whole pass calls each layer once. Step-by-step decoding calls a decoder layer once a step; the rows of step t
    are the rows that were being written at step t, so a search that reorders them is read step by step, in `calls`.
    """

    calls: dict[str, list[Weights]] = field(default_factory=lambda: defaultdict(list))
    hidden: dict[str, list[Float[Tensor, "b t"]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def names(self) -> list[str]:
        """Attention layers that were used, from the bottom up."""
        return [name for name, calls in self.calls.items() if calls]

    def attention(self, name: str) -> Weights:
        """Who looked at whom: every query's weights over the keys. Steps are joined, later keys weighing nothing."""
        calls = self.calls[find(name, self.names)]
        if len({len(weights) for weights in calls}) > 1:
            raise ValueError(f"{name}: the number of rows changed between steps; read them one by one in calls")
        longest = max(weights.size(-1) for weights in calls)
        return torch.cat([F.pad(weights, (0, longest - weights.size(-1))) for weights in calls], dim=2)

    def entropy(self, name: str) -> Float[Tensor, "b h q"]:
        """How widely each query looks, in nats: 0 at one key, log(k) at all alike."""
        weights = self.attention(name)
        return -torch.xlogy(weights, weights).sum(dim=-1)

    def norms(self, name: str) -> Float[Tensor, "b t"]:
        """The length of every vector that leaves a layer."""
        used = [layer for layer, calls in self.hidden.items() if calls]
        return torch.cat(self.hidden[find(name, used)], dim=1)


def twin(model: M) -> M:
    """A second model of the same tensors: what is hung on it, threads that use the first never see."""
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, shared)


@contextmanager
def record(model: nn.Module) -> Generator[Seen]:
    """Record attention weights and the norms of hidden vectors while the model is used as always.

    Kernels that never write their weights down are exchanged for their references, and put back whatever happens.
    Decoding must begin inside the block. Weights stay on the model's device, without gradients.
    """
    seen = Seen()
    with ExitStack() as undo:
        for name, layer in attention_layers(model).items():
            exchange(layer, undo)
            watch(layer, seen.calls[name].append, undo)
        for name, module in modules_of(model).items():
            if isinstance(module, EncoderBlock | DecoderBlock):
                undo.callback(after(module, partial(keep_norms, seen.hidden[name])).remove)
        yield seen


def last_cross(model: nn.Module) -> str:
    """The name of the layer that alignments are read from. Earlier ones look further around."""
    return [name for name in attention_layers(model) if name.endswith("cross_attention")][-1]


def source_attention(
    model: nn.Module, source: Int[Tensor, "b s"], inputs: Int[Tensor, "b t"]
) -> Float[Tensor, "b t s"]:
    """Return the cross-attention weights of the last decoder layer, the mean of its heads."""
    with record(model) as seen:
        model(source, inputs)
    return seen.attention(last_cross(model)).mean(dim=1).float()


def attention_layers(model: nn.Module) -> dict[str, Attention]:
    """All attention layers by name: encoder.layers.3.self_attention, decoder.layers.0.cross_attention, ..."""
    return {name: module for name, module in modules_of(model).items() if isinstance(module, Attention)}


def modules_of(model: nn.Module) -> dict[str, nn.Module]:
    """Return all modules of a model by name."""
    named = cast("Iterable[tuple[str, nn.Module]]", model.named_modules())
    return dict(named)


def after(module: nn.Module, see: Callable[[Any, Tensor], None]) -> RemovableHandle:
    """Call `see` with the arguments and the output of a module each time it has been used."""

    def hook(_: nn.Module, args: Any, output: Tensor) -> None:
        see(args, output.detach())

    return module.register_forward_hook(hook)


def keep_norms(norms: list[Tensor], _: Any, output: Tensor) -> None:
    norms.append(output.norm(dim=-1))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def exchange(layer: Attention, undo: ExitStack) -> None:
    kernel = layer.kernel
    layer.kernel = kernel.reference()
    undo.callback(setattr, layer, "kernel", kernel)


def watch(layer: Attention, keep: Callable[[Weights], None], undo: ExitStack) -> None:
    """Weights of a beam were folded into one sentence's queries; the layer's input says how many rows there are."""
    passing: list[Tensor] = []

    def pass_on(_: Any, weights: Tensor) -> None:
        passing.append(weights)

    def keep_unfolded(args: Any, _: Tensor) -> None:
        keep(unfold(passing.pop(), args[0].size(0)))

    undo.callback(after(weights_of(layer.kernel), pass_on).remove)
    undo.callback(after(layer, keep_unfolded).remove)


def weights_of(kernel: Kernel) -> nn.Module:
    weights = getattr(kernel, "weights", None)
    if not isinstance(weights, nn.Module):
        raise TypeError(f"{type(kernel).__name__} writes no weights down; its reference() must give a kernel that does")
    return weights


@contextmanager
def ablate(model: nn.Module, heads: Sequence[Head]) -> Generator[None]:
    """Silence heads: what they bring to their layer's output becomes zero. Pairs of a layer's name and a number."""
    layers = attention_layers(model)
    silenced: dict[str, set[int]] = defaultdict(set)
    for name, head in heads:
        layer = layers[find(name, list(layers))]
        if not 0 <= head < layer.heads:
            raise UsageError(f"{name} has heads 0 to {layer.heads - 1}, not {head}")
        silenced[name].add(head)
    with ExitStack() as undo:
        for name, numbers in silenced.items():
            undo.callback(silence(layers[name], numbers).remove)
        yield


def silence(layer: Attention, heads: set[int]) -> RemovableHandle:
    loud = torch.tensor([head not in heads for head in range(layer.heads)]).repeat_interleave(layer.head_width)
    return layer.out.register_forward_pre_hook(lambda _, args: (args[0] * loud.to(args[0]),))


def find(name: str, known: list[str]) -> str:
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    there = f"there are {len(known)}, from {known[0]} to {known[-1]}" if known else "nothing has passed through yet"
    raise UsageError(f"there is no layer {name!r}; {hint}{there}")
