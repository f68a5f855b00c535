"""A tagger's trace in a terminal and as a picture: words, their labels, and attention."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.inspection.console import changes_and_attention, colour, probability_key
from headway.inspection.plots import Section, draw_bars, draw_sections
from headway.reports.html import PALETTE
from headway.tasks.base import TraceView
from headway.text.unicode import plain as harmless

LABELS = 3  # shown beside a word's own


def draw(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> RenderableType:
    """The sentence with its spans, then every word with its labels."""
    parts: list[RenderableType] = [sentence(trace), probability_key(), Text(), words_table(trace["words"])]
    return Group(*parts, *changes_and_attention(trace, layer, head))


def sentence(trace: dict[str, Any]) -> Text:
    """Spans in brackets, or every word with its label, in the colour of its probability."""
    words, spans = trace["words"], trace["spans"]
    if spans is None:
        return Text(" ").join(
            Text(f"{harmless(one['text'])}/{harmless(one['label'])}", colour(one["p"])) for one in words
        )
    owner = {place: number for number, span in enumerate(spans) for place in range(span["start"], span["end"])}
    parts: list[Text] = []
    for number, group in groupby(range(len(words)), key=lambda place: owner.get(place)):
        inside = [words[place] for place in group]
        text = harmless(" ".join(one["text"] for one in inside))
        if number is None:
            parts.append(Text(text))
        else:
            sure = min(one["p"] for one in inside)
            parts.append(Text(f"[{text} {harmless(spans[number]['kind'])}]", style=colour(sure)))
    return Text(" ").join(parts)


def words_table(words: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("word", no_wrap=True)
    table.add_column("label")
    table.add_column("probability", justify="right")
    table.add_column("others")
    for one in words:
        others = [other for other in one["top"] if other["label"] != one["label"] and other["p"] >= 0.005][:LABELS]
        told = "  ".join(f"{harmless(other['label'])} {other['p']:.0%}" for other in others)
        label = Text(harmless(one["label"]), style=colour(one["p"]))
        table.add_row(Text(harmless(one["text"])), label, f"{one['p']:.1%}", Text(told, style="dim"))
    return table


def draw_picture(trace: dict[str, Any], path: Path, layer: int = -1, head: int | None = None) -> None:
    words = trace["words"]
    kinds = sorted({one["label"].partition("-")[2] or one["label"] for one in words})
    colours = [PALETTE[kinds.index(one["label"].partition("-")[2] or one["label"]) % len(PALETTE)] for one in words]
    names = [f"{one['text']}\n{one['label']}" for one in words]
    chances = [one["p"] for one in words]
    parts: list[Section] = [
        (2.6, lambda axes: draw_bars(axes, names, chances, colours, "Probability of each word's label"))
    ]
    draw_sections(trace, path, parts, layer, head)


VIEW = TraceView(
    required={"words": list},
    draw=draw,
    picture=draw_picture,
    terminal_panels=("attention",),
    picture_panels=("attention", "heads"),
)
