"""Plots of training curves and attention as PNG files, by matplotlib."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from headway.errors import UsageError
from headway.reports.charts import short
from headway.reports.history import History
from headway.reports.html import PALETTE
from headway.reports.panels import Line, Panel, panels
from headway.storage.files import replace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 120
DASHES = ("-", "--", ":", "-.")
# matplotlib's own fonts have no Chinese, Japanese or Korean characters; these are tried in this order.
FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "WenQuanYi Zen Hei", "PingFang SC")
FONTS += ("Hiragino Sans", "Microsoft YaHei", "SimHei", "Droid Sans Fallback", "Arial Unicode MS")


def new_figure(width: float, height: float) -> Figure:
    """Return a matplotlib figure without a window or global state; `width` and `height` are in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("pictures need matplotlib; run pip install 'headway-mt[plot]'") from None
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a PNG file atomically. Characters that no font has are drawn as boxes, without warnings."""
    from matplotlib import font_manager, rc_context
    from matplotlib.text import Text

    here = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["DejaVu Sans", *(name for name in FONTS if name in here)]
    for text in figure.findobj(Text):
        text.set(fontfamily=fonts, parse_math=False, usetex=False)  # dollar signs do not begin formulas
    buffer = io.BytesIO()
    with _quiet(), rc_context({"text.usetex": False}):  # a matplotlibrc in the current folder must not run LaTeX
        figure.savefig(buffer, format="png", facecolor="white")
    replace(path, buffer.getvalue())


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress matplotlib's warnings about missing characters and font weights."""
    logger = logging.getLogger("matplotlib.font_manager")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            yield
    finally:
        logger.setLevel(before)


# ---------------------------------------------------------------- training curves


def curves_picture(histories: Sequence[History], path: Path) -> None:
    """Plot loss, scores, learning rate and speed of one or several runs over steps and over minutes."""
    drawn = panels(histories)
    figure = new_figure(11.5, 2.9 * len(drawn) + 0.5)
    axes = figure.subplots(len(drawn), 2, squeeze=False, sharey="row", sharex="col")
    for row, panel in zip(axes, drawn, strict=True):
        _draw_panel(row[0], panel, "steps")
        _draw_panel(row[1], panel, "minutes")
        row[0].set_title(panel.title, loc="left", fontsize=11, fontweight="bold")
        if len(panel.lines) > 1:
            row[1].legend(fontsize=9, frameon=False, loc="best")
    axes[-1][0].set_xlabel("step")
    axes[-1][1].set_xlabel("minutes of training")
    names = ", ".join(history.name for history in histories)
    figure.suptitle(f"Training of {names}", fontsize=13, x=0.01, ha="left")
    save(figure, path)


def _draw_panel(axes: Axes, panel: Panel, axis: str) -> None:
    for line in panel.lines:
        _draw_line(axes, line, line.curve.steps if axis == "steps" else line.curve.minutes)
    axes.grid(color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelbottom=True, labelsize=9)
    axes.set_xlim(left=0)
    axes.set_ylim(panel.low, panel.high + 0.08 * ((panel.high - panel.low) or abs(panel.high) or 1.0))
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.yaxis.set_major_formatter(lambda value, _: short(value))


def _draw_line(axes: Axes, line: Line, across: list[float]) -> None:
    few = len(across) <= 60
    axes.plot(
        across,
        line.curve.values,
        color=PALETTE[line.colour % len(PALETTE)],
        linestyle=DASHES[line.dash % len(DASHES)],
        linewidth=1.6,
        marker="o" if (line.dotted and few) or len(across) == 1 else None,
        markersize=3.5,
        label=line.name,
    )


# ---------------------------------------------------------------- attention

Weights = Float[np.ndarray, "q k"]


def attention_picture(
    weights: Weights, rows: Sequence[str], columns: Sequence[str], path: Path, title: str = ""
) -> None:
    """Plot attention weights as a heat map: rows are query tokens, columns are key tokens."""
    figure = new_figure(1.6 + 0.36 * len(columns), 1.4 + 0.32 * len(rows))
    axes = figure.subplots()
    image = draw_attention(axes, weights, rows, columns)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    if title:
        axes.set_xlabel(title, fontsize=10)
    save(figure, path)


def attention_grid(
    heads: Float[np.ndarray, "h q k"],
    rows: Sequence[str],
    columns: Sequence[str],
    path: Path,
    title: str = "",
    across: int = 4,
) -> None:
    """Plot the heat maps of all heads of a layer on one scale, with token labels at the outer edges only."""
    across = min(across, len(heads))
    down = -(-len(heads) // across)
    width, height = max(2.0, 0.22 * len(columns)), max(1.6, 0.2 * len(rows))
    figure = new_figure(1.2 + across * (width + 0.2), 1.2 + down * (height + 0.4))
    grid = figure.subplots(down, across, squeeze=False).flatten()
    image = None
    for index, axes in enumerate(grid):
        if index >= len(heads):
            axes.set_visible(False)
            continue
        image = draw_attention(axes, heads[index], rows, columns, size=7)
        axes.set_title(f"head {index + 1}", fontsize=9)
        axes.tick_params(labelleft=index % across == 0, labeltop=index < across)
    if image is not None:
        figure.colorbar(image, ax=grid.tolist(), shrink=0.6, pad=0.01, aspect=30)
    if title:
        figure.suptitle(title, fontsize=11)
    save(figure, path)


def draw_attention(axes: Axes, weights: Weights, rows: Sequence[str], columns: Sequence[str], size: int = 9) -> Any:
    """Draw a heat map of attention weights and return matplotlib's image; `size` is that of the font in points."""
    if weights.shape != (len(rows), len(columns)):
        raise ValueError(f"weights are {weights.shape}, but there are {len(rows)} rows and {len(columns)} columns")
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="left", rotation_mode="anchor", fontsize=size)
    axes.set_yticks(range(len(rows)), rows, fontsize=size)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(-0.5, len(columns)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(rows)), minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    return image
