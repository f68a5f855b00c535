"""A survey of heads as a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from headway.reports.plots import new_figure, save
from headway.tasks.translation.head_survey import Finding, Survey
from headway.tasks.translation.panels import KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

NAMES = {"loss": "loss", "bleu": "BLEU", "chrf": "chrF"}
TITLES = {"encoder": "encoder, self", "decoder": "decoder, self", "cross": "decoder, cross"}
BAR = 12  # signs of the longest bar


def heads_table(found: Survey) -> Table:
    whole = ", ".join(f"{NAMES[name]} {value:.3f}" for name, value in found.whole.items())
    table = Table(box=None, pad_edge=False, header_style="dim", title=f"{found.sentences} sentences, {whole}")
    table.title_justify = "left"
    table.add_column("head", no_wrap=True)
    table.add_column("label")
    for title in ("entropy", "distance", *(f"{NAMES[name]} without it" for name in found.whole)):
        table.add_column(title, justify="right")
    table.add_column("")
    most = max(max(one.changes["loss"] for one in found.findings), 1e-9)
    for one in found.findings:
        changes = [
            f"{one.changes[name]:+.4f}" if name == "loss" else f"{one.changes[name]:+.2f}" for name in found.whole
        ]
        bar = "█" * round(BAR * max(0.0, one.changes["loss"]) / most)
        table.add_row(
            str(one.head), one.label, f"{one.entropy:.2f}", f"{one.distance:.1f}", *changes, Text(bar, "cyan")
        )
    return table


def heads_picture(found: Survey, path: Path) -> None:
    """A square for each head, darker where the loss grows more without it; the label inside."""
    layers = 1 + max(one.head.layer for one in found.findings)
    heads = 1 + max(one.head.head for one in found.findings)
    figure = new_figure(3 * max(2.4, 0.85 * heads) + 1.2, 1.4 + 0.7 * layers)
    most = max(max(one.changes["loss"] for one in found.findings), 1e-9)
    grid = figure.subplots(1, 3, squeeze=False)[0]
    image: Any = None
    for axes, (name, kind) in zip(grid, KINDS.items(), strict=True):
        mine = [one for one in found.findings if (one.head.stack, one.head.kind) == kind]
        image = draw_heads(axes, mine, most)
        axes.set_title(TITLES[name], loc="left", fontsize=10, fontweight="bold")
    figure.colorbar(image, ax=grid.tolist(), shrink=0.8, pad=0.01, label="loss without the head")
    figure.suptitle(f"What is lost without each head, over {found.sentences} sentences", fontsize=11, x=0.01, ha="left")
    save(figure, path)


def draw_heads(axes: Axes, findings: list[Finding], most: float) -> AxesImage:
    layers, heads = (1 + max(getattr(one.head, name) for one in findings) for name in ("layer", "head"))
    table = np.zeros((layers, heads))
    for one in findings:
        table[one.head.layer, one.head.head] = one.changes["loss"]
        told = f"{one.label}\n{one.changes['loss']:+.3f}"
        light = one.changes["loss"] > 0.55 * most
        axes.text(
            one.head.head,
            one.head.layer,
            told,
            ha="center",
            va="center",
            fontsize=7,
            color="white" if light else "black",
        )
    image = axes.imshow(table, cmap="Blues", vmin=0.0, vmax=most, aspect="auto")
    axes.set_xticks(range(heads), [f"head {head}" for head in range(heads)], fontsize=8)
    axes.set_yticks(range(layers), [f"layer {layer}" for layer in range(layers)], fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image
