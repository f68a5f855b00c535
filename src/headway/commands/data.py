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

if TYPE_CHECKING:
    from headway.data.catalogue import Entry
    from headway.data.fetch import Watch
    from headway.data.http import Tell

data = typer.Typer(help="Public parallel corpora: which there are, and how to get them.", no_args_is_help=True)

From = Annotated[Path | None, typer.Option("--catalogue", help="A list of your own instead, as TOML.")]


@data.command("list")
def list_(catalogue: From = None) -> None:
    """Say which corpora can be fetched, and on what terms."""
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
def get(
    name: Annotated[str, typer.Argument(help="As `headway data list` says.")],
    to: Annotated[Path | None, typer.Option(help="Folder for the texts; else one of the corpus's name.")] = None,
    catalogue: From = None,
) -> None:
    """Fetch a corpus: go on after a break, check, unpack, and say how to train on it."""
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
    print(f"\n{command(entry, folder)}")


def command(entry: Entry, folder: Path) -> str:
    """What to type next."""
    words = ["headway", "train"]
    for split, prefix in (("train", "--"), ("dev", "--dev-")):
        for side, text in zip(("source", "target"), entry.pair(split) or (), strict=False):
            words += [f"{prefix}{side}", str(folder / text)]
    return join([*words, "--out", f"{entry.source_language}-{entry.target_language}"])


@contextmanager
def progress() -> Iterator[Watch]:
    """A bar with the time left where a person is looking; else silence."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    hidden = not sys.stderr.isatty() or os.environ.get("TERM") == "dumb"
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=hidden) as bars:

        def watch(name: str) -> Tell:
            task = bars.add_task(name, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield watch
