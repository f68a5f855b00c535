"""headway plot: the curves of one or several training runs, as a picture and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headway.commands.options import command
from headway.errors import UsageError
from headway.reports.curves import curves_page
from headway.reports.history import History, read_history
from headway.reports.plots import curves_picture
from headway.storage.files import replace_text

NAME = "curves"


@command
def plot(
    runs: Annotated[list[Path], typer.Argument(help="Model folders of training runs, or metrics.jsonl files.")],
    out: Annotated[
        Path | None, typer.Option(help="A .png or .html file.", show_default="both, in the first folder")
    ] = None,
) -> None:
    """Draw loss, scores, learning rate and speed against steps and minutes."""
    histories = tell_apart(runs, [read_history(run) for run in runs])
    if out is None:
        folder = runs[0].parent if runs[0].is_file() else runs[0]
        _write_page(histories, folder / f"{NAME}.html")
        _try_picture(histories, folder / f"{NAME}.png")
    elif out.suffix.lower() == ".png":
        _write_picture(histories, out)
    elif out.suffix.lower() in (".html", ".htm"):
        _write_page(histories, out)
    else:
        raise UsageError(f"--out {out}: give a name that ends in .png or .html")


def tell_apart(runs: Sequence[Path], histories: list[History]) -> list[History]:
    """Name each run by the last part of its path, or by the whole path where two share that part."""
    names = [history.name for history in histories]
    return [
        History(str(run) if names.count(history.name) > 1 else history.name, history.train, history.dev)
        for run, history in zip(runs, histories, strict=True)
    ]


def _write_page(histories: list[History], path: Path) -> None:
    replace_text(path, curves_page(histories))
    _say(f"wrote {path}")


def _write_picture(histories: list[History], path: Path) -> None:
    curves_picture(histories, path)
    _say(f"wrote {path}")


def _try_picture(histories: list[History], path: Path) -> None:
    """Write the picture if matplotlib is installed; without it the page is enough."""
    try:
        _write_picture(histories, path)
    except UsageError as error:
        _say(f"no {path.name}: {error}")


def _say(text: str) -> None:
    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
