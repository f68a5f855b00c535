"""A translation's trace in a terminal and as a picture: probabilities, alignment of words, heads, and the beam."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.errors import UsageError
from headway.inspection.console import baseline, colour_pieces, matrix, pieces_table, plain, probability_key
from headway.inspection.plots import ACROSS, draw_probabilities, draw_small, title
from headway.inspection.words import Matrix, word_alignment
from headway.inspection.words import plain as shown
from headway.reports.html import PALETTE
from headway.reports.plots import draw_attention, new_figure, save
from headway.storage.byte_tables import unpack
from headway.tasks.base import TraceView
from headway.text.unicode import plain as harmless

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

FATES = {"kept": PALETTE[0], "finished": PALETTE[2], "pruned": "#9aa1ab"}


def draw(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> RenderableType:
    """Return all that the trace holds and a terminal can show."""
    parts: list[RenderableType] = [sentence(trace), Text(), pieces_table(trace), Text(), alternatives(trace)]
    if trace.get("baseline"):
        parts += [Text(), baseline(trace["baseline"], trace["target"])]
    if "attention" in trace:
        reading = "mean of its heads" if head is None else f"head {head}"
        where = f"decoder layer {layer % trace['model']['decoder_layers']}, {reading}"
        parts += [Text(), matrix(word_alignment(trace, layer, head), f"Where it looked ({where})")]
    if "beam" in trace:
        parts += [Text(), beam_table(trace["beam"])]
    return Group(*parts)


def sentence(trace: dict[str, Any]) -> Text:
    """Source and output; each piece of the output has the colour of its probability."""
    source = Text(harmless(trace["source"]["text"]), style="dim")
    return Text("\n").join([source, colour_pieces(trace["target"]["pieces"]), probability_key()])


def alternatives(trace: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("score", justify="right")
    table.add_column("logp", justify="right")
    table.add_column("outputs")
    for one in trace["alternatives"]:
        table.add_row(f"{one['score']:.3f}", f"{one['logp']:.3f}", Text(harmless(one["text"])))
    return table


def beam_table(beam: dict[str, Any]) -> Table:
    """A row for each step: what was kept, the best first, and what finished."""
    title = f"Beam of {beam['size']}, length penalty {beam['alpha']:g}"
    table = Table(box=None, pad_edge=False, header_style="dim", title=title)
    for title in ("step", "finished", "kept, the best first", "left behind"):
        table.add_column(title)
    for number, step in enumerate(beam["steps"], 1):
        fates = {fate: Text("  ").join(candidates(step, fate)) for fate in ("finished", "kept", "pruned")}
        table.add_row(str(number), fates["finished"], fates["kept"], fates["pruned"])
    return table


def candidates(step: list[dict[str, Any]], fate: str) -> Iterator[Text]:
    styles = {"finished": "green", "kept": "default", "pruned": "dim"}
    for one in step:
        if one["fate"] == fate:
            yield Text(f"{plain(one['text'])} {one['normalised']:.2f}", style=styles[fate])


# ---------------------------------------------------------------- as a picture


def draw_picture(trace: dict[str, Any], path: Path, layer: int = -1, head: int | None = None) -> None:
    """Write a picture of one part below another."""
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


def draw_words(axes: Axes, words: Matrix, name: str) -> None:
    draw_attention(axes, words.weights.numpy(), words.rows, words.columns)
    axes.set_xlabel(f"words of the output look at words of the source: {name}", fontsize=9)


def draw_heads(part: SubFigure, heads: np.ndarray, trace: dict[str, Any], layer: int) -> None:
    rows, columns = ([shown(piece["text"]) for piece in trace[side]["pieces"]] for side in ("target", "source"))
    labels = {
        one["head"]: one["label"] for one in trace.get("heads", ()) if one["kind"] == "cross" and one["layer"] == layer
    }
    names = [
        " · ".join(filter(None, [f"decoder.{layer}.cross.{number}", labels.get(number)]))
        for number in range(len(heads))
    ]
    draw_small(part, heads, rows, columns, names)


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
            axes.text(*here, shown(one["text"]), ha="center", va="center", fontsize=7, color=colour, clip_on=True)
            if one["row"] is not None:
                kept[one["row"]] = here
        rows = kept
    axes.set_xlim(-1.2, len(steps) - 0.4)
    axes.set_ylim(-tree_height(steps) + 0.4, 0.6)
    axes.axis("off")
    told = ", ".join(f"{fate}" for fate in FATES)
    title(axes, f"Beam of {beam['size']}, length penalty {beam['alpha']:g} ({told}: blue, green, grey)")


VIEW = TraceView(
    required={"alternatives": list},
    draw=draw,
    picture=draw_picture,
    terminal_panels=("attention",),
    picture_panels=("attention", "beam", "heads"),
)
