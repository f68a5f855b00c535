"""Reports of an evaluation of any task: tables for a terminal, an HTML page, and a plot of the confusion matrix."""

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

CELL, LEAST, MOST = 0.45, 4.0, 24.0  # inches: side of a matrix cell, smallest and largest side of the plot


def print_measured(title: str, found: Evaluation, console: Console) -> None:
    """Print scores, tables and notes of an evaluation."""
    console.print(Text(f"{plain(title)}: {found.count:,} examples", style="bold"))
    print_scores(found.scores, console)
    for one in found.tables:
        console.print(drawn(one))
    for note in found.notes:
        console.print(Text(f"note: {plain(note)}", style="yellow"), soft_wrap=True)


def drawn(tally: Tally) -> Table:
    """Return a table of numbers for the terminal."""
    columns = [Column(Text(name), justify="right" if number else "left") for number, name in enumerate(tally.head)]
    whole = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in tally.rows:
        whole.add_row(*(Text(plain(said(cell, tally.digits))) for cell in row))
    return whole


def said(cell: str | int | float, digits: int) -> str:
    """Format a cell: text as it is, integers with separators, other numbers with `digits` decimals."""
    if isinstance(cell, str):
        return cell
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.{digits}f}"


def measured_page(title: str, found: Evaluation) -> str:
    """Return the HTML page of an evaluation, with the confusion matrix as a table."""
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
    """Plot the confusion matrix: the share of texts with the label of the row that got the label of the column."""
    if found.confusion is None:
        raise UsageError("--picture draws a confusion matrix, which needs a classifier with one label for each text")
    labels = [plain(label) for label in found.confusion.head[1:]]
    counts = np.array([row[1:] for row in found.confusion.rows], dtype=float)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    side = float(np.clip(CELL * len(labels) + 2, LEAST, MOST))
    figure = new_figure(side, side)
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(labels)), labels, rotation=90)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel("predicted label")
    axes.set_ylabel("correct label")
    for row, column in zip(*np.nonzero(counts), strict=True):
        colour = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, f"{int(counts[row, column])}", ha="center", va="center", color=colour, fontsize=7)
    save(figure, path)
