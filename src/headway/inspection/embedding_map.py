"""Neighbourhoods of words as a table, a page and a picture."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from headway.inspection.embeddings import Neighbourhood
from headway.reports.html import PALETTE, Html, page, table, tag
from headway.reports.plots import new_figure, save
from headway.text.unicode import plain

WIDTH, HEIGHT, EDGE = 1000, 700, 50


def words_table(found: Neighbourhood) -> Table:
    rows = Table(box=None, pad_edge=False, header_style="dim")
    rows.add_column("word", style="bold", no_wrap=True)
    rows.add_column("nearest, with the cosine")
    for word, near in zip(found.words, found.nearest, strict=True):
        rows.add_row(Text(plain(word)), Text("  ".join(f"{plain(text)} {cosine:.2f}" for text, cosine in near)))
    return rows


def words_page(found: Neighbourhood, model: str) -> str:
    near = [", ".join(f"{text} {cosine:.2f}" for text, cosine in row) for row in found.nearest]
    rows, head = list(zip(found.words, near, strict=True)), ["word", "nearest"]
    return page(
        f"Words of {model}",
        tag("p", f"{len(found.words)} words by {found.method} of their embeddings. ",
            "Neighbours are by the cosine in all dimensions, so they may lie apart on the map.", class_="soft"),
        tag("figure", tag("figcaption", "Map"), word_map(found)),
        tag("h2", "Neighbours"),
        table(head, rows, "Nearest words, by cosine", head),
    )  # fmt: skip


def word_map(found: Neighbourhood) -> Html:
    low, high = found.places.amin(dim=0), found.places.amax(dim=0)
    shares = ((found.places - low) / (high - low).clamp(min=1e-9)).tolist()
    marks = []
    for word, (x, y) in zip(found.words, shares, strict=True):
        left, top = EDGE + x * (WIDTH - 2 * EDGE), HEIGHT - EDGE - y * (HEIGHT - 2 * EDGE)
        marks.append(tag("circle", cx=f"{left:.1f}", cy=f"{top:.1f}", r=2.5, style="fill:var(--c0)"))
        marks.append(tag("text", word, x=f"{left + 5:.1f}", y=f"{top + 4:.1f}", class_="strong"))
    return tag("svg", *marks, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label="Map of words")


def words_picture(found: Neighbourhood, path: Path, model: str) -> None:
    figure = new_figure(11.0, 8.0)
    axes = figure.subplots()
    x, y = found.places.T.tolist()
    axes.scatter(x, y, s=6, color=PALETTE[0])
    for word, left, top in zip(found.words, x, y, strict=True):
        axes.annotate(word, (left, top), xytext=(3, 2), textcoords="offset points", fontsize=8)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(f"Words of {model}: {found.method} of their embeddings", loc="left", fontsize=11)
    save(figure, path)
