"""A trace as a picture: probabilities, alignment of words, all heads of a layer, and the beam."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.errors import UsageError
from headway.inspection.words import Matrix, plain, word_alignment
from headway.reports.html import PALETTE
from headway.reports.plots import draw_attention, new_figure, save
from headway.storage.byte_tables import unpack

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

FATES = {"kept": PALETTE[0], "finished": PALETTE[2], "pruned": "#9aa1ab"}
ACROSS = 4  # heads beside each other


def trace_picture(trace: dict[str, Any], path: Path, layer: int = -1, head: int | None = None) -> None:
    """One part below another."""
    missing = [part for part in ("attention", "beam") if part not in trace]
    if missing:
        raise UsageError(f"this trace was saved without {missing[0]}; make it again with headway look --json")
    words = word_alignment(trace, layer, head)
    heads = unpack(trace["attention"]["cross"])[layer].numpy()
    steps = trace["beam"]["steps"]
    down = -(-len(heads) // ACROSS)
    heights = [
        2.4,
        1.6 + 0.28 * len(words.rows),
        0.8 + down * max(1.8, 0.16 * len(trace["target"]["pieces"])),
        1.2 + 0.3 * tree_height(steps),
    ]
    figure = new_figure(max(12.0, 0.55 * len(steps) + 2), sum(heights) + 0.6)
    parts: Any = figure.subfigures(4, 1, height_ratios=heights)
    draw_probabilities(parts[0].subplots(), trace["target"]["pieces"])
    number = layer % trace["model"]["decoder_layers"]
    draw_words(
        parts[1].subplots(), words, f"decoder layer {number}, " + ("mean of heads" if head is None else f"head {head}")
    )
    draw_heads(parts[2], heads, trace, number)
    draw_beam(parts[3].subplots(), steps, trace["beam"])
    figure.suptitle(f"{trace['source']['text']}\n{trace['target']['text']}", fontsize=11, x=0.01, ha="left", wrap=True)
    save(figure, path)


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


def draw_words(axes: Axes, words: Matrix, name: str) -> None:
    draw_attention(axes, words.weights.numpy(), words.rows, words.columns)
    axes.set_xlabel(f"words of the output look at words of the source: {name}", fontsize=9)


def draw_heads(part: SubFigure, heads: np.ndarray, trace: dict[str, Any], layer: int) -> None:
    rows, columns = ([plain(piece["text"]) for piece in trace[side]["pieces"]] for side in ("target", "source"))
    labels = {
        one["head"]: one["label"] for one in trace.get("heads", ()) if one["kind"] == "cross" and one["layer"] == layer
    }
    names = [
        " · ".join(filter(None, [f"decoder.{layer}.cross.{number}", labels.get(number)]))
        for number in range(len(heads))
    ]
    draw_small(part, heads, rows, columns, names)


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


# ---------------------------------------------------------------- the beam


def tree_height(steps: list[list[dict[str, Any]]]) -> int:
    return max((len(step) for step in steps), default=1)


def draw_beam(axes: Axes, steps: list[list[dict[str, Any]]], beam: dict[str, Any]) -> None:
    """A column for each step, the best candidate on top; lines lead from parents."""
    rows: dict[int, tuple[float, float]] = {0: (-1.0, 0.0)}
    for x, step in enumerate(steps):
        kept: dict[int, tuple[float, float]] = {}
        for place, one in enumerate(step):
            here, colour = (float(x), -float(place)), FATES[one["fate"]]
            parent = rows.get(one["parent"], (x - 1.0, 0.0))
            axes.plot(
                [parent[0] + 0.38, here[0] - 0.38],
                [parent[1], here[1]],
                color=colour,
                linewidth=0.3 + 2.2 * math.exp(one["score"]),
                zorder=1,
            )
            axes.text(*here, plain(one["text"]), ha="center", va="center", fontsize=7, color=colour, clip_on=True)
            if one["row"] is not None:
                kept[one["row"]] = here
        rows = kept
    axes.set_xlim(-1.2, len(steps) - 0.4)
    axes.set_ylim(-tree_height(steps) + 0.4, 0.6)
    axes.axis("off")
    told = ", ".join(f"{fate}" for fate in FATES)
    title(axes, f"Beam of {beam['size']}, length penalty {beam['alpha']:g} ({told}: blue, green, grey)")
