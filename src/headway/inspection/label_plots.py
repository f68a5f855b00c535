"""Traces of labels, classes and foresight as pictures: probabilities, causes, and all heads of a layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import UsageError
from headway.inspection.plots import draw_probabilities, draw_small, title
from headway.inspection.words import plain, word_attention
from headway.reports.html import PALETTE
from headway.reports.plots import draw_attention, new_figure, save
from headway.storage.byte_tables import unpack

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Part = tuple[float, Callable[["Axes"], None]]  # its height in inches, and what draws it


def tagging(trace: dict[str, Any], path: Path, layer: int = -1, head: int | None = None) -> None:
    words = trace["words"]
    kinds = sorted({one["label"].partition("-")[2] or one["label"] for one in words})
    colours = [PALETTE[kinds.index(one["label"].partition("-")[2] or one["label"]) % len(PALETTE)] for one in words]
    names = [f"{one['text']}\n{one['label']}" for one in words]
    chances = [one["p"] for one in words]
    parts: list[Part] = [(2.6, lambda axes: bars(axes, names, chances, colours, "Probability of each word's label"))]
    plate(trace, path, parts, layer, head)


def classification(trace: dict[str, Any], path: Path, layer: int = -1, head: int | None = None) -> None:
    classes = trace["classes"]
    names, pieces = [one["label"] for one in classes], [plain(piece["text"]) for piece in trace["source"]["pieces"]]
    chances, shares = [one["p"] for one in classes], trace["pooling"]
    colours = [PALETTE[0] if one["chosen"] else "#9aa1ab" for one in classes]
    parts: list[Part] = [
        (2.4, lambda axes: bars(axes, names, chances, colours, "Probability of each class")),
        (2.4, lambda axes: bars(axes, pieces, shares, PALETTE[2], "What each piece counts in the text's vector")),
    ]
    if worth := trace.get("occlusion"):
        nats, told = worth["data"][: len(pieces)], f"What each piece is worth for {worth['labels'][0]}, in nats"
        signs = [PALETTE[0] if value >= 0 else PALETTE[1] for value in nats]
        parts.append((2.4, lambda axes: bars(axes, pieces, nats, signs, told, None)))
    plate(trace, path, parts, layer, head)


def language_model(trace: dict[str, Any], path: Path, layer: int = -1, head: int | None = None) -> None:
    plate(trace, path, [(2.4, lambda axes: draw_probabilities(axes, trace["target"]["pieces"]))], layer, head)


def bars(
    axes: Axes,
    names: Sequence[str],
    values: Sequence[float],
    colours: Sequence[str] | str,
    told: str,
    high: float | None = 1.0,
) -> None:
    axes.bar(range(len(values)), list(values), color=colours, width=0.8)
    axes.set_xticks(range(len(names)), list(names), rotation=45, ha="right", fontsize=8)
    if high is not None:
        axes.set_ylim(0, high)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.spines[["top", "right"]].set_visible(False)
    title(axes, told)


def plate(trace: dict[str, Any], path: Path, parts: list[Part], layer: int, head: int | None) -> None:
    """One part below another; then attention between words, and between pieces for every head."""
    if "attention" not in trace:
        raise UsageError("this trace was saved without attention; make it again with headway look --json")
    words = word_attention(trace, layer, head)
    ((stack, packed),) = trace["attention"].items()
    number, heads = layer % packed["shape"][0], unpack(packed)[layer].numpy()
    name = f"{stack} layer {number}, " + ("mean of heads" if head is None else f"head {head}")
    heights = [
        *(height for height, _ in parts),
        1.6 + 0.28 * len(words.rows),
        0.8 + math.ceil(len(heads) / 4) * max(1.8, 0.16 * len(trace["source"]["pieces"])),
    ]
    figure = new_figure(max(10.0, 0.4 * len(trace["source"]["pieces"])), sum(heights) + 0.6)
    places: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    for place, (_, draw) in zip(places, parts, strict=False):
        draw(place.subplots())
    axes = places[-2].subplots()
    draw_attention(axes, words.weights.numpy(), words.rows, words.columns)
    axes.set_xlabel(f"words look at words: {name}", fontsize=9)
    pieces = [plain(piece["text"]) for piece in trace["source"]["pieces"]]
    columns = {"encoder": pieces, "decoder": ["<s>", *pieces[:-1]]}[stack]
    draw_small(places[-1], heads, pieces, columns, [head_name(trace, stack, number, one) for one in range(len(heads))])
    figure.suptitle(f"{trace['source']['text']}\n{trace['target']['text']}", fontsize=11, x=0.01, ha="left", wrap=True)
    save(figure, path)


def head_name(trace: dict[str, Any], stack: str, layer: int, head: int) -> str:
    same = [one["label"] for one in trace.get("heads", ()) if (one["layer"], one["head"]) == (layer, head)]
    return " · ".join([f"{stack}.{layer}.self.{head}", *same])
