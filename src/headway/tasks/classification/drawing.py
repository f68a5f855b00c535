"""A classifier's trace in a terminal and as a picture: classes, pieces, and attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.inspection.console import changes_and_attention, plain
from headway.inspection.plots import Section, draw_bars, draw_sections
from headway.inspection.words import plain as shown
from headway.reports.html import PALETTE
from headway.tasks.base import TraceView
from headway.text.unicode import plain as harmless
from headway.text.vocabulary import BOS

BAR = 40  # signs of a whole bar


def draw(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> RenderableType:
    """Bars for the classes, then what each piece counted."""
    parts: list[RenderableType] = [
        Text(harmless(trace["source"]["text"]), style="dim"),
        classes_table(trace["classes"]),
    ]
    return Group(*parts, Text(), pooling_table(trace), *changes_and_attention(trace, layer, head))


def classes_table(classes: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("class")
    table.add_column("probability", justify="right")
    table.add_column()
    for one in classes:
        bar = Text("█" * round(BAR * one["p"]), style="cyan" if one["chosen"] else "dim")
        table.add_row(Text(harmless(one["label"]), style="bold" if one["chosen"] else ""), f"{one['p']:.1%}", bar)
    return table


def pooling_table(trace: dict[str, Any]) -> Table:
    """Every piece: its share of the text's vector, and what leaving it out takes from the likeliest class."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("piece", no_wrap=True)
    table.add_column("pooled", justify="right")
    worth = trace.get("occlusion")
    table.add_column(f"for {harmless(worth['labels'][0])}, in nats" if worth else "", justify="right")
    for place, (piece, share) in enumerate(zip(trace["source"]["pieces"], trace["pooling"], strict=True)):
        told = f"{worth['data'][place]:+.3f}" if worth and piece["id"] != BOS else ""
        table.add_row(plain(piece["text"]), f"{share:.1%}", told)
    return table


def draw_picture(trace: dict[str, Any], path: Path, layer: int = -1, head: int | None = None) -> None:
    classes = trace["classes"]
    names, pieces = [one["label"] for one in classes], [shown(piece["text"]) for piece in trace["source"]["pieces"]]
    chances, shares = [one["p"] for one in classes], trace["pooling"]
    colours = [PALETTE[0] if one["chosen"] else "#9aa1ab" for one in classes]
    parts: list[Section] = [
        (2.4, lambda axes: draw_bars(axes, names, chances, colours, "Probability of each class")),
        (2.4, lambda axes: draw_bars(axes, pieces, shares, PALETTE[2], "What each piece counts in the text's vector")),
    ]
    if worth := trace.get("occlusion"):
        nats, told = worth["data"][: len(pieces)], f"What each piece is worth for {worth['labels'][0]}, in nats"
        signs = [PALETTE[0] if value >= 0 else PALETTE[1] for value in nats]
        parts.append((2.4, lambda axes: draw_bars(axes, pieces, nats, signs, told, None)))
    draw_sections(trace, path, parts, layer, head)


VIEW = TraceView(
    required={"classes": list, "pooling": list},
    draw=draw,
    picture=draw_picture,
    terminal_panels=("attention", "occlusion"),
    picture_panels=("attention", "heads", "occlusion"),
)
