"""Stages of the forward pass at one place, written down by hooks in the order in which they happen.

So every placement of norms, every score and every position scheme is told by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.inspection import formulas
from headway.model.attention import Attention
from headway.model.design import Design
from headway.model.hooks import exchange, weights_of
from headway.model.norms import RMS, Batch, Layer
from headway.model.stacks import Stack
from headway.storage.byte_tables import pack_scaled

PARTS = {"around_self": "self-attention", "around_source": "cross-attention", "around_feed": "feed-forward"}


@dataclass(frozen=True)
class Stage:
    """A matrix on the way, and how it came about."""

    name: str
    part: str  # embedding, self-attention, cross-attention, feed-forward or output
    stack: str
    layer: int | None
    formula: str
    values: Float[Tensor, "r c"]
    head: int | None = None
    rows: Sequence[str] | None = None
    columns: Sequence[str] | None = None

    def to_dict(self) -> dict[str, Any]:
        names = {"name": self.name, "part": self.part, "stack": self.stack, "layer": self.layer, "head": self.head}
        labels = {"rows": self.rows and list(self.rows), "columns": self.columns and list(self.columns)}
        return {**names, "formula": self.formula, **pack_scaled(self.values.float().cpu()), **labels}


class Watcher:
    """Writes down what passes through one stack at one place; `stages` grows while the model is used."""

    def __init__(self, design: Design, name: str, place: int, stages: list[Stage], undo: ExitStack) -> None:
        self.design, self.name, self.place, self.stages, self.undo = design, name, place, stages, undo
        self.known: list[Tensor] = []  # kept, so that the same tensor is written down once
        self.part, self.layer = "embedding", None

    def watch(self, stack: Stack, embedded: Float[Tensor, "1 t d"], own: Sequence[str], source: Sequence[str]) -> None:
        """`own` and `source` name the pieces that self-attention and cross-attention look at."""
        self.before(stack.layers[0], lambda x, *_: self.note_entrance(embedded, x))
        for number, block in enumerate(stack.layers):
            self.before(block, lambda *_, number=number: setattr(self, "layer", number))
            for name, child in block.named_children():
                if isinstance(child, Attention):
                    self.watch_attention(child, source if name == "cross_attention" else own)
                elif name in PARTS:
                    self.watch_residual(child, PARTS[name])
                else:
                    self.watch_feed_forward(child)
        if stack.last_norm is not None:
            self.after(stack.last_norm, lambda _, y: self.note("norm", formulas.NORM[self.design.norm.kind], y))

    # ------------------------------------------------------------ hooks

    def before(self, module: nn.Module, see: Callable[..., None]) -> None:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
            see(*args)

        self.undo.callback(module.register_forward_pre_hook(hook).remove)

    def after(self, module: nn.Module, see: Callable[[tuple[Any, ...], Tensor], None]) -> None:
        def hook(_: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            see(args, output)

        self.undo.callback(module.register_forward_hook(hook).remove)

    def note(self, name: str, formula: str, x: Float[Tensor, "1 t c"]) -> None:
        """A vector for each place, unless it is one that was written down before."""
        if not any(x is one for one in self.known):
            self.known.append(x)
            self.add(name, formula, x[0, self.place][None])

    def add(self, name: str, formula: str, values: Float[Tensor, "r c"], **labels: Any) -> None:
        self.stages.append(Stage(name, self.part, self.name, self.layer, formula, values.detach(), **labels))

    # ------------------------------------------------------------ parts

    def note_entrance(self, embedded: Float[Tensor, "1 t d"], x: Float[Tensor, "1 t d"]) -> None:
        self.note("embedding", "√d · E[piece]" if self.design.scale_embedding else "E[piece]", embedded)
        if torch.equal(embedded, x):  # positions come in elsewhere, or not at all
            self.known.append(x)
        kind = self.design.positions.kind
        self.note("positions", formulas.POSITIONS.get(kind, f"x + {kind} positions"), x)

    def watch_residual(self, around: nn.Module, part: str) -> None:
        """What a norm is given is the sum where the norm comes last, and known already where it comes first."""
        self.before(around, lambda *_: setattr(self, "part", part))
        add, norm = formulas.RESIDUAL[self.design.residual.kind], formulas.NORM[self.design.norm.kind]
        for child in around.children():
            if isinstance(child, Layer | RMS | Batch):
                self.before(child, lambda x, *_: self.note("residual", add, x))
                self.after(child, lambda _, y: self.note("norm", norm, y))
        self.after(around, lambda _, y: self.note("residual", add, y))

    def watch_feed_forward(self, layer: nn.Module) -> None:
        kind = self.design.feed_forward.kind
        self.before(layer.get_submodule("down"), lambda x: self.note("inner", formulas.INNER[kind], x))
        self.after(layer, lambda _, y: self.note("feed-forward", formulas.FEED_FORWARD[kind], y))

    def watch_attention(self, layer: Attention, keys: Sequence[str]) -> None:
        seen: dict[str, Tensor] = {}
        exchange(layer, self.undo)
        score = getattr(layer.kernel, "score", None)
        if isinstance(score, nn.Module):
            self.after(score, lambda _, y: seen.update(scores=y))
        self.after(weights_of(layer.kernel), lambda _, y: seen.update(weights=y))
        self.before(layer.out, lambda x: seen.update(mixed=x))
        self.after(layer, lambda args, y: self.note_attention(layer, args, seen | {"output": y}, keys))

    def note_attention(
        self, layer: Attention, args: tuple[Any, ...], seen: dict[str, Tensor], keys: Sequence[str]
    ) -> None:
        x, source, mask, x_pos, source_pos, _ = args
        queries, project = layer.project(x, source, source_pos)
        q = layer.positions.rotate(layer.split(queries, layer.heads), x_pos)
        k, v, k_pos = project()
        k, v = layer.spread(k), layer.spread(v)
        heads = [f"head {head}" for head in range(layer.heads)]
        turned = formulas.ROTATED.get(self.design.positions.kind, "") if layer.positions.rotates else ""
        self.add("queries", f"q = {turned}x W_Q", q[0, :, self.place], rows=heads)
        for head in range(layer.heads):
            self.add("keys", f"k = {turned}x W_K", k[0, head], head=head, rows=keys)
            self.add("values", "v = x W_V", v[0, head], head=head, rows=keys)
        if "scores" in seen:
            bias = layer.positions.bias(q, k, x_pos, k_pos)
            scores = seen["scores"] if bias is None else seen["scores"] + bias
            self.add_weights("scores", self.score_formula(layer), scores, keys)
        self.add_weights("weights", weights_formula(layer, mask.causal), seen["weights"], keys)
        mixed = layer.split(seen["mixed"], layer.heads)
        self.add("head outputs", formulas.HEAD, mixed[0, :, self.place], rows=heads)
        self.note("attention", formulas.MULTI_HEAD, seen["output"])

    def add_weights(self, name: str, formula: str, table: Float[Tensor, "1 h q k"], keys: Sequence[str]) -> None:
        """Kernels that press keys together have no piece for each column."""
        rows = [f"head {head}" for head in range(table.size(1))]
        columns = keys if table.size(-1) == len(keys) else None
        self.add(name, formula, table[0, :, self.place], rows=rows, columns=columns)

    def score_formula(self, layer: Attention) -> str:
        known = formulas.SCORES.get(type(layer.kernel.score).__name__, formulas.PLAIN_DOT)
        known = known if layer.kernel.scaled else formulas.PLAIN_DOT
        return known + (formulas.BIAS.get(self.design.positions.kind, "") if layer.positions.adds_bias else "")


def weights_formula(layer: Attention, causal: bool) -> str:
    usual = formulas.SOFTMAX_CAUSAL if causal else formulas.SOFTMAX
    return formulas.WEIGHTS.get(type(layer.kernel).__name__, usual)
