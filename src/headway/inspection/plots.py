"""Parts of a trace as a picture that several tasks show: probabilities, bars, attention, all heads of a layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.errors import UsageError
from headway.inspection.words import plain, word_attention
from headway.reports.html import PALETTE
from headway.reports.plots import draw_attention, new_figure, save
from headway.storage.byte_tables import unpack

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

ACROSS = 4  # heads beside each other
Section = tuple[float, Callable[["Axes"], None]]  # its height in inches, and what draws it


def title(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10, fontweight="bold")


def draw_probabilities(axes: Axes, pieces: list[dict[str, Any]]) -> None:
    chances = [math.exp(piece["logp"]) for piece in pieces]
    colours = [PALETTE[4] if piece["forced"] else PALETTE[0] for piece in pieces]
    axes.bar(range(len(pieces)), chances, color=colours, width=0.8)
    axes.set_xticks(range(len(pieces)), [plain(piece["text"]) for piece in pieces], rotation=45, ha="right", fontsize=8)
    axes.set_ylim(0, 1)
    axes.set_xlim(-0.6, len(pieces) - 0.4)
    axes.spines[["top", "right"]].set_visible(False)
    title(axes, "Probability of each piece")


def draw_small(
    part: SubFigure, heads: np.ndarray, rows: Sequence[str], columns: Sequence[str], names: Sequence[str]
) -> None:
    """All heads of a layer beside each other."""
    across = min(ACROSS, len(heads))
    grid = part.subplots(-(-len(heads) // across), across, squeeze=False).flatten()
    for number, axes in enumerate(grid):
        if number >= len(heads):
            axes.set_visible(False)
            continue
        draw_attention(axes, heads[number], rows, columns, size=6)
        axes.tick_params(labelleft=number % across == 0, labeltop=number < across)
        axes.set_xlabel(names[number], fontsize=8)


def draw_bars(
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


# ---------------------------------------------------------------- models of one stack


def draw_sections(trace: dict[str, Any], path: Path, parts: list[Section], layer: int, head: int | None) -> None:
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
