"""Figures of results.md, drawn from its own tables: python docs/figures.py"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pictures import shrink

from headway.reports.html import PALETTE
from headway.reports.plots import new_figure, save

HERE = Path(__file__).resolve().parent
PEER = "Hugging Face"


@dataclass(frozen=True)
class Panel:
    """A table of a section, and which of its columns are drawn."""

    section: str
    x: str
    y: str
    unit: str
    rows: str = ""  # those whose first cell has this pattern
    ticks: tuple[int, ...] = ()  # of a logarithmic axis


PANELS = {
    "quality.png": (
        Panel("Multi30k English → German, English → French", "wall clock, whole command", "test2016 BLEU",
              "seconds, whole command", r"^(?!.*French)"),
        Panel("Tatoeba English → German", "wall clock, whole command", "dev BLEU", "seconds, whole command"),
    ),
    "quality-chrf.png": (
        Panel("Multi30k English → German, English → French", "wall clock, whole command", "chrF",
              "seconds, whole command", r"^(?!.*French)"),
        Panel("Tatoeba English → German", "wall clock, whole command", "chrF", "seconds, whole command"),
    ),
    "speed.png": (
        Panel("Fast, default, best", "sentences/s", "BLEU", "sentences/s", ticks=(30, 100, 300, 1000)),
        Panel("Fast, default, best", "sentences/s", "chrF", "sentences/s", ticks=(30, 100, 300, 1000)),
    ),
    "scaling.png": (
        Panel("Quality against the amount of text", "pairs", "dev BLEU", "pairs", ticks=(1658, 16_578, 165_778)),
        Panel("Quality against the amount of text", "pairs", "chrF", "pairs", ticks=(1658, 16_578, 165_778)),
    ),
}  # fmt: skip


def section(text: str, title: str) -> str:
    found = re.search(rf"(?ms)^## {re.escape(title)}$(.*?)(?=^## |\Z)", text)
    assert found, f"results.md has no section {title!r}"
    return found[1]


def table(text: str) -> Iterator[dict[str, str]]:
    """The rows of the first table, by the names of its columns."""
    lines = re.search(r"(?m)(?:^\|.*\n)+", text)
    assert lines, "no table"
    head, _, *rows = ([cell.strip() for cell in line.strip("|\n").split("|")] for line in lines[0].splitlines())
    yield from (dict(zip(head, row, strict=True)) for row in rows)


def number(cell: str) -> float | None:
    found = re.search(r"\d[\d,.]*", cell)
    return float(found[0].rstrip(".,").replace(",", "")) if found else None


def points(text: str, panel: Panel) -> Iterator[tuple[str, float, float]]:
    for row in table(section(text, panel.section)):
        name, x, y = next(iter(row.values())), number(row[panel.x]), number(row[panel.y])
        if x is not None and y is not None and re.search(panel.rows, name):
            yield name, x, y


def draw(text: str, panels: tuple[Panel, ...], path: Path) -> None:
    figure = new_figure(5.2 * len(panels), 3.6)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for name, x, y in points(text, panel):
            colour = PALETTE[1] if PEER in name else PALETTE[0]
            axes.plot(x, y, "s" if PEER in name else "o", color=colour, markersize=8)
            label = "" if name.startswith("the same") else re.split(r"[:,(]", name.replace("headway, ", ""))[0]
            axes.annotate(label, (x, y), (0, 8), textcoords="offset points", ha="center", fontsize=8, color=colour)
        if panel.ticks:
            axes.set_xscale("log")
            axes.set_xticks(panel.ticks, [f"{tick:,}" for tick in panel.ticks])
            axes.minorticks_off()
        axes.margins(x=0.25, y=0.2)
        axes.set(xlabel=panel.unit, ylabel=panel.y, title=panel.section.removesuffix(", English → French"))
        axes.grid(alpha=0.3)
    save(figure, path)
    shrink(path, path)
    print(f"wrote {path}")


if __name__ == "__main__":
    whole = (HERE / "results.md").read_text(encoding="utf-8")
    for name, drawn in PANELS.items():
        draw(whole, drawn, HERE / "pictures" / name)
