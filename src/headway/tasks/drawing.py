"""A trace of any kind, in a terminal or as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import RenderableType

from headway.inspection import console, label_console, label_plots, plots

Trace = dict[str, Any]


class Drawing(NamedTuple):
    """How a trace of one kind is drawn: with a layer (-1: the last) and one of its heads (None: their mean)."""

    terminal: Callable[[Trace, int, int | None], RenderableType]
    picture: Callable[[Trace, Path, int, int | None], None]


DRAWINGS = {
    "translation": Drawing(console.drawn, plots.trace_picture),
    "tagging": Drawing(label_console.tagging, label_plots.tagging),
    "classification": Drawing(label_console.classification, label_plots.classification),
    "language_model": Drawing(label_console.language_model, label_plots.language_model),
}


def drawn(trace: Trace, layer: int = -1, head: int | None = None) -> RenderableType:
    return DRAWINGS[trace["kind"]].terminal(trace, layer, head)


def pictured(trace: Trace, path: Path, layer: int = -1, head: int | None = None) -> None:
    DRAWINGS[trace["kind"]].picture(trace, path, layer, head)
