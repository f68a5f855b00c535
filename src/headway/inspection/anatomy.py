"""What a model is made of: its parameters by part, its modules as a tree, and its figure as in the paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, cast

from rich.align import Align
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree
from torch import nn

from headway.model.attention import Attention
from headway.model.classifiers import TextClassifier, WordClassifier
from headway.model.design import Design, EncoderDecoderDesign
from headway.model.heads.pooling import AttentionVector, FirstVector, MeanVector
from headway.model.heads.tags import CrfHead
from headway.model.inputs import BigramEmbedding, TokenEmbedding
from headway.model.models import EncoderDecoder, LanguageModel, TextEncoder
from headway.model.positions import Positions
from headway.model.stacks import Stack

Labelling = WordClassifier | TextClassifier  # an encoder under a head
Model = EncoderDecoder | LanguageModel | TextEncoder | Labelling

STACKS = {"encoder": "encoder", "decoder": "decoder", "stack": "layers"}
ROLES = {  # the first that occurs in a parameter's name
    "positions": "positions",
    "cross_attention": "cross-attention",
    "self_attention": "self-attention",
    "feed_forward": "feed-forward",
    "around": "norms",
    "last_norm": "norms",
}
HEADS = {"linear": "labels", "head": "labels"}  # names of what stands beside an encoder
POOLINGS = {MeanVector: "mean of all vectors", FirstVector: "class token", AttentionVector: "attention over vectors"}
SUBLAYER = "sublayer"
PLACES = {  # how a sublayer joins the stream, from below
    "post": (SUBLAYER, "add & {norm} norm"),
    "deep": (SUBLAYER, "add, weighted, & {norm} norm"),
    "pre": ("{norm} norm", SUBLAYER, "add"),
    "sandwich": ("{norm} norm", SUBLAYER, "{norm} norm", "add"),
    "rezero": (SUBLAYER, "times alpha & add"),
}


class Box(NamedTuple):
    """One step of the figure."""

    does: str
    detail: str = ""
    parameters: int = 0  # of its own

    def lines(self) -> Iterator[Text]:
        yield Text(f"{self.does}  {self.parameters:,}" if self.parameters else self.does)
        if self.detail:
            yield Text(f"  {self.detail}", style="dim")


# ---------------------------------------------------------------- counting


def size_of(module: nn.Module) -> int:
    """Parameters, each counted once however often it is used."""
    return sum(parameter.numel() for parameter in module.parameters())


def count_parts(model: nn.Module) -> dict[str, int]:
    """Parameters by part; a matrix used twice counts once, under all its uses."""
    if isinstance(model, Labelling):
        beside = {HEADS.get(name, name): size_of(child) for name, child in model.named_children()}
        return count_parts(model.encoder) | {name: size for name, size in beside.items() if size and name != "encoder"}
    names: dict[nn.Parameter, list[str]] = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[parameter].append(name)
    counts: dict[str, int] = defaultdict(int)
    for parameter, uses in names.items():
        counts[part_of(uses)] += parameter.numel()
    return dict(counts)


def part_of(uses: list[str]) -> str:
    first = uses[0].split(".")[0]
    if first in STACKS:
        role = next((role for mark, role in ROLES.items() if mark in uses[0]), "other")
        return f"{STACKS[first]} {role}"
    tables = [use.split(".")[0].replace("head", "output") for use in uses]
    if len(tables) == 1:
        return tables[0].replace("_", " ")
    return " = ".join(table.removesuffix("_embedding") for table in tables)


# ---------------------------------------------------------------- the tree of modules


def module_tree(model: nn.Module) -> Tree:
    """Modules with their shapes; equal neighbours are drawn once, what has no parameters is left out."""
    root = Tree(f"{type(model).__name__}  {size_of(model):,}")
    grow(root, model, {})
    return root


def grow(branch: Tree, module: nn.Module, drawn: dict[int, str], path: str = "") -> None:
    for names, child in equal_neighbours(module):
        label = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}  ({len(names)} alike)"
        own = [say_shape(name, one, drawn, f"{path}{names[0]}") for name, one in child.named_parameters(recurse=False)]
        shapes = f"  {', '.join(own)}" if own else ""
        below = branch.add(Text(f"{label}  {type(child).__name__}{shapes}  {size_of(child):,}"))
        grow(below, child, drawn, f"{path}{names[0]}.")


def say_shape(name: str, parameter: nn.Parameter, drawn: dict[int, str], path: str) -> str:
    """A matrix that was drawn before is named instead."""
    first = drawn.setdefault(id(parameter), path)
    shape = " × ".join(f"{n:,}" for n in parameter.shape) or "1"
    return f"{name} [{shape}]" if first == path else f"{name} of {first}"


def equal_neighbours(module: nn.Module) -> Iterator[tuple[list[str], nn.Module]]:
    children = [(name, child) for name, child in module.named_children() if size_of(child)]
    for _, group in groupby(children, key=lambda pair: shape_of(pair[1])):
        alike = list(group)
        yield [name for name, _ in alike], alike[0][1]


def shape_of(module: nn.Module) -> tuple[object, ...]:
    return type(module), *((name, parameter.shape) for name, parameter in module.named_parameters())


# ---------------------------------------------------------------- the figure


def figure(design: Design, model: Model) -> RenderableType:
    """Figure 1 of the paper for this model, inputs at the bottom."""
    if isinstance(model, Labelling):
        return Group(label_head(model), figure(design, model.encoder))
    if isinstance(model, EncoderDecoder):
        sides = Table.grid(padding=(0, 1))
        left = tower(design, "encoder layer", model.encoder, cast("nn.Module", model.source_embedding), "s")
        right = tower(design, "decoder layer", cast("nn.Module", model.decoder), model.target_embedding, "t")
        reads = Align(Text(f"{say_reads(design)}\n──────▶"), vertical="middle")
        sides.add_row(Align(left, vertical="bottom"), reads, Group(output(model), right))
        return sides
    below = tower(design, "layer", cast("nn.Module", model.stack), cast("nn.Module", model.embedding), "t")
    return Group(output(model), below) if isinstance(model, LanguageModel) else below


def say_reads(design: Design) -> str:
    if not isinstance(design, EncoderDecoderDesign):
        return ""
    layers = sorted(set(design.read_layers()))
    return "keys and\nvalues of\n" + (
        "the last\nlayer" if layers == [design.encoder_layers - 1] else f"layers\n{layers}"
    )


def output(model: EncoderDecoder | LanguageModel) -> RenderableType:
    pieces, width = model.head.weight.shape
    tied = id(model.head.weight) in {
        id(module.weight) for module in model.modules() if isinstance(module, TokenEmbedding)
    }
    head = Box("linear & softmax", f"{width:,} → {pieces:,}{', tied' if tied else ''}", 0 if tied else pieces * width)
    return boxes([head], f"b × t × {pieces:,}")


def label_head(model: Labelling) -> RenderableType:
    """What makes labels of vectors, and what is added to them before."""
    if isinstance(model, TextClassifier):
        pooling, linear = model.pooling, model.linear
        inside, over = [Box(POOLINGS[type(pooling)], "", size_of(pooling))], "b"
        inside.append(Box("linear", f"{linear.in_features:,} → {linear.out_features:,}", size_of(linear)))
    else:
        linear, over = model.head.linear, "b × words"
        named = "linear & conditional random field" if isinstance(model.head, CrfHead) else "linear & softmax"
        inside = [Box(named, f"{linear.in_features:,} → {linear.out_features:,}", size_of(model.head))]
        if model.letters is not None:
            inside.insert(0, Box("letters, added to each word's first piece", "", size_of(model.letters)))
    return boxes(inside, f"{over} × {linear.out_features:,} labels")


def tower(design: Design, name: str, stack: nn.Module, embedding: nn.Module, time: str) -> RenderableType:
    """Draw one stack: the input, positions, a layer N times, and its last norm. Parts of other kinds are one box."""
    bottom = list(input_boxes(design, embedding))
    if not isinstance(stack, Stack):
        whole = boxes([Box(type(stack).__name__, "", size_of(stack))])
        return Group(whole, boxes(bottom), Text(f"  tokens  b × {time}"))
    layers, block = len(stack.layers), stack.layers[0]
    inside = [box for sublayer in sublayers(design, block) for box in join(design, sublayer)]
    top = [boxes([Box(f"{design.norm.kind} norm", "", size_of(stack.last_norm))])] if stack.last_norm else []
    if not any(acts(layer) for layer in block.modules()) and type(stack.positions) is not Positions:
        bottom.append(Box(f"add {design.positions.kind} positions", "", size_of(stack.positions)))
    layer = boxes(inside, f"{layers} × {name} {size_of(block):,}")
    return Group(*top, layer, boxes(bottom), Text(f"  tokens  b × {time}"))


def input_boxes(design: Design, embedding: nn.Module) -> Iterator[Box]:
    if not isinstance(embedding, TokenEmbedding):
        yield Box(type(embedding).__name__, "", size_of(embedding))
        return
    scale = f" × {embedding.scale:.4g}" if embedding.scale != 1 else ""
    yield Box("embedding", f"{embedding.vocabulary:,} × {design.width:,}{scale}", embedding.weight.numel())
    if isinstance(embedding, BigramEmbedding):
        rows = len(embedding.pairs.weight)
        yield Box("add bigram vectors", f"{rows:,} × {design.width:,}", size_of(embedding.pairs))


def sublayers(design: Design, block: nn.Module) -> Iterator[Box]:
    """What a layer does, from below."""
    for name, child in block.named_children():
        if isinstance(child, Attention):
            yield Box(name.replace("_", "-"), say_attention(design, child), size_of(child))
        elif name == "feed_forward":
            inner = child.get_submodule("down").get_parameter("weight").size(1)
            shape = f"{design.width:,} → {inner:,} → {design.width:,}"
            yield Box("feed-forward", f"{shape}, {design.feed_forward.kind}", size_of(child))


def say_attention(design: Design, layer: Attention) -> str:
    kernel = type(layer.kernel).__name__.removesuffix("Kernel").lower()
    shared = "" if layer.key_heads == layer.heads else f", {layer.key_heads} for keys"
    place = f", {design.positions.kind}" if acts(layer) else ""
    return f"{layer.heads} heads × {layer.head_width}{shared}, {kernel}{place}"


def acts(layer: nn.Module) -> bool:
    """Whether positions are known inside attention, not added to the embeddings."""
    return isinstance(layer, Attention) and (layer.positions.rotates or layer.positions.adds_bias)


def join(design: Design, sublayer: Box) -> Iterator[Box]:
    for place in PLACES.get(design.residual.kind, (SUBLAYER, design.residual.kind)):
        yield sublayer if place == SUBLAYER else Box(place.format(norm=design.norm.kind))


def boxes(inside: Sequence[Box], title: str | None = None) -> Panel:
    """Drawn from the top down, so the first stands lowest."""
    lines = [line for box in reversed(inside) for line in box.lines()]
    return Panel(Text("\n", no_wrap=True).join(lines), title=title, expand=False)
