"""headway data: public parallel corpora, listed and fetched."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headway.commands.options import command

if TYPE_CHECKING:
    from headway.data.catalogue import Entry
    from headway.data.fetch import Watch
    from headway.data.http import Tell

data = typer.Typer(help="List and download public parallel corpora.", no_args_is_help=True)

From = Annotated[Path | None, typer.Option("--catalogue", help="Read the list of corpora from this TOML file.")]


@data.command("list")
@command
def list_(catalogue: From = None) -> None:
    """List the corpora that can be downloaded, with their licences."""
    from headway.data.catalogue import LISTED, read

    for entry in read(catalogue or LISTED).corpora:
        print("\n  ".join((entry.name, entry.about, amount(entry), f"{entry.licence}; {entry.page}")))
    print("\nheadway data get NAME fetches one")


def amount(entry: Entry) -> str:
    pairs = f"{entry.pairs} pairs" if entry.pairs else "number of pairs not stated"
    size = f"{entry.size / 1e6:.1f} MB" if entry.size else "size not stated"
    checked = "checksums listed" if entry.verified else "no checksum listed: the first download is believed"
    return f"{entry.source_language}-{entry.target_language}, {pairs}, {size}; {checked}"


@data.command("get")
@command
def get(
    name: Annotated[str, typer.Argument(help="Name of the corpus, as `headway data list` prints it.")],
    to: Annotated[
        Path | None, typer.Option(help="Folder for the texts.", show_default="the name of the corpus")
    ] = None,
    catalogue: From = None,
) -> None:
    """Download a corpus, or continue its download; check it, unpack it, and print how to train on it."""
    from headway.data.catalogue import LISTED, read
    from headway.data.fetch import Trust, fetch
    from headway.data.http import Patience

    entry = read(catalogue or LISTED).find(name)
    folder = to or Path(name)
    print(f"{entry.name}: {entry.about}; licence: {entry.licence}; {entry.page}")
    with progress() as watch:
        for text in fetch(entry, folder, watch, Patience()):
            state = "" if text.new else " (was here)"
            sha256 = f" (sha256 {text.sha256})" if text.trust is Trust.FIRST else ""
            print(f"{folder / text.name}: {text.lines:,} lines{state}; {text.trust}{sha256}")
    print(f"\n{train_command(entry, folder)}")


def train_command(entry: Entry, folder: Path) -> str:
    """Return the command that trains on a corpus."""
    words = ["headway", "train"]
    for split, prefix in (("train", "--"), ("dev", "--dev-")):
        for side, text in zip(("source", "target"), entry.pair(split) or (), strict=False):
            words += [f"{prefix}{side}", str(folder / text)]
    return join([*words, "--out", f"{entry.source_language}-{entry.target_language}"])


@contextmanager
def progress() -> Iterator[Watch]:
    """Show a bar with the time left, if standard error is a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    hidden = not sys.stderr.isatty() or os.environ.get("TERM") == "dumb"
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=hidden) as bars:

        def watch(name: str) -> Tell:
            task = bars.add_task(name, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield watch
