"""Where an export goes: made beside its place, moved there whole, never over somebody's files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.storage import files
from headway.version import installed

MARK = "headway-export.json"  # tells what made the folder; only such a folder is ever replaced


@contextmanager
def destination(out: Path, force: bool, needed: int) -> Iterator[Path]:
    """A new folder; it becomes `out` when the block ends well, and vanishes otherwise."""
    check_place(out, force)
    new = out.with_name(f".{out.name}.new-{os.getpid()}")
    with files.disk_trouble(out, needed):
        files.make_folder(out.absolute().parent)
        files.check_space(out.absolute().parent, needed)
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        try:
            yield new
            make_durable(new)
            put(new, out)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def check_place(out: Path, force: bool) -> None:
    if not out.exists() and not out.is_symlink():
        return
    if not out.is_dir() or out.is_symlink():
        raise UsageError(f"--out {out}: is not a folder; name a new one")
    if not any(out.iterdir()):
        return
    if not (out / MARK).is_file():
        raise UsageError(f"--out {out}: holds files that no export has written; name a new folder")
    if not force:
        raise UsageError(f"--out {out}: holds an export; name a new folder, or give --force to replace it")


def mark(folder: Path, facts: dict[str, Any]) -> None:
    """Say in the folder what it is and how well it agreed."""
    table = {"headway": installed("headway"), **facts}
    (folder / MARK).write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def make_durable(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            files.sync_folder(path)
        else:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
    files.sync_folder(folder)


def put(new: Path, out: Path) -> None:
    """The old folder leaves by its name first: nobody ever meets half of each."""
    old = out.with_name(f".{out.name}.old-{os.getpid()}")
    if out.exists():
        files.rename(out, old)
    try:
        files.rename(new, out)
    except OSError:
        if old.exists():
            files.rename(old, out)
        raise
    files.sync_folder(out.absolute().parent)
    shutil.rmtree(old, ignore_errors=True)
