"""A language model's trace in a terminal and as a picture: how likely each piece was, and attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from headway.inspection.console import changes_and_attention, colour_pieces, pieces_table, probability_key
from headway.inspection.plots import draw_probabilities, draw_sections
from headway.tasks.base import TraceView


def draw(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> RenderableType:
    """The text in the colours of its probabilities, then every piece with what else could have come."""
    target, memory = trace["target"], trace["memory"]
    read = f"with a memory of {memory['length']} pieces" if memory["length"] else f"in windows of {memory['segment']}"
    told = f"log-probability {target['logp']:.3f}, {-target['score']:.3f} nats a piece; read {read}"
    parts: list[RenderableType] = [colour_pieces(target["pieces"]), probability_key(), Text(told, style="dim"), Text()]
    return Group(*parts, pieces_table(trace), *changes_and_attention(trace, layer, head))


def draw_picture(trace: dict[str, Any], path: Path, layer: int = -1, head: int | None = None) -> None:
    draw_sections(trace, path, [(2.4, lambda axes: draw_probabilities(axes, trace["target"]["pieces"]))], layer, head)


VIEW = TraceView(
    required={"memory": dict},
    draw=draw,
    picture=draw_picture,
    terminal_panels=("attention",),
    picture_panels=("attention", "heads"),
)
