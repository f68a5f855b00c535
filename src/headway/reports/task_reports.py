"""How good a model of any task is: tables for a terminal, a page, and a picture of what is taken for what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from headway.errors import UsageError
from headway.metrics.evaluation import Evaluation, Tally
from headway.reports.documents import scores_table, signatures
from headway.reports.html import join, page, table, tag
from headway.reports.plots import new_figure, save
from headway.reports.tables import print_scores
from headway.text.unicode import plain

CELL, LEAST, MOST = 0.45, 4.0, 24.0  # inches of a picture


def print_measured(title: str, found: Evaluation, console: Console) -> None:
    console.print(Text(f"{plain(title)}: {found.count:,} examples", style="bold"))
    print_scores(found.scores, console)
    for one in found.tables:
        console.print(drawn(one))
    for note in found.notes:
        console.print(Text(f"note: {plain(note)}", style="yellow"), soft_wrap=True)


def drawn(tally: Tally) -> Table:
    columns = [Column(Text(name), justify="right" if number else "left") for number, name in enumerate(tally.head)]
    whole = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in tally.rows:
        whole.add_row(*(Text(plain(said(cell, tally.digits))) for cell in row))
    return whole


def said(cell: str | int | float, digits: int) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.{digits}f}"


def measured_page(title: str, found: Evaluation) -> str:
    """Everything in one file, the confusion as a table too."""
    tables = (*found.tables, *([found.confusion] if found.confusion else []))
    return page(
        title,
        tag("p", f"{found.count:,} examples", class_="soft"),
        scores_table(found.scores),
        signatures(found.scores),
        *(tag("p", note) for note in found.notes),
        join(
            *(
                table(one.head, [[said(cell, one.digits) for cell in row] for row in one.rows], one.title)
                for one in tables
            )
        ),
    )


def confusion_picture(found: Evaluation, path: Path) -> None:
    """A square for each pair of labels: the share of texts with the row's label that got the column's."""
    if found.confusion is None:
        raise UsageError("--picture shows what is taken for what, which needs a classifier with one label a text")
    labels = [plain(label) for label in found.confusion.head[1:]]
    counts = np.array([row[1:] for row in found.confusion.rows], dtype=float)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    side = float(np.clip(CELL * len(labels) + 2, LEAST, MOST))
    figure = new_figure(side, side)
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(labels)), labels, rotation=90)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel("taken for")
    axes.set_ylabel("right label")
    for row, column in zip(*np.nonzero(counts), strict=True):
        colour = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, f"{int(counts[row, column])}", ha="center", va="center", color=colour, fontsize=7)
    save(figure, path)
