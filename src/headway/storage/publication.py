"""Replace the files of a model folder atomically, and read them during a replacement.

A writer writes a new model to `.new` and renames that to `.pending`, which makes it the current model. Then it moves
the files to the folder and removes `.pending`. A reader uses a complete `.pending` instead of the files of the folder.
Readers therefore never move, lock or write anything: the folder may be read-only or another user's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headway.errors import UsageError
from headway.storage import files
from headway.storage.lock import Lock

FACTS = "headway.json"  # written last: a folder with this file is complete
NEW, PENDING, LOCK = ".new", ".pending", ".lock"
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
PATIENCE = 5.0  # seconds for which a reader retries while a model is published

Found = TypeVar("Found")


# ---------------------------------------------------------------- reading


def place_of(folder: Path) -> Path:
    """Return the folder with the newest complete model: `folder`, or its `.pending` if a writer has not finished."""
    pending = folder / PENDING
    return pending if os.path.isfile(pending / FACTS) and not os.path.islink(pending) else folder


def newest(folder: Path, read: Callable[[Path], Found]) -> Found:
    """Return the result of `read` for the newest model, retried if a model was published meanwhile."""
    until = time.monotonic() + PATIENCE
    while True:
        before = _stamp(folder)
        try:
            found = read(place_of(folder))
            if _stamp(folder) == before:
                return found
        except (UsageError, OSError) as error:
            if _stamp(folder) == before or time.monotonic() > until:
                raise _one_line(folder, error) from None


def _stamp(folder: Path) -> tuple[Path, int, int, int]:
    """Return a value that changes when a model is published, and again when its files have been moved."""
    place = place_of(folder)
    try:
        facts = os.stat(place / FACTS)
    except OSError:
        return place, 0, 0, 0
    return place, facts.st_ino, facts.st_mtime_ns, facts.st_size


def _one_line(folder: Path, error: UsageError | OSError) -> UsageError:
    if isinstance(error, UsageError):
        return error
    return UsageError(f"{error.filename or folder}: cannot be read: {error.strerror or error}")


# ---------------------------------------------------------------- writing


def publish(folder: Path, write: Callable[[Path], None]) -> None:
    """Replace the model by the one that `write` puts into an empty folder: all files synced, headway.json last.

    After a crash at any time the folder has the old model or the new one, never a mixture.
    """
    new, pending = folder / NEW, folder / PENDING
    for path in (new, pending):
        if path.is_symlink():
            raise UsageError(f"{path} is a link, through which nothing is written; remove it, or use another folder")
    with Lock(folder / LOCK):
        _finish(folder)
        shutil.rmtree(new, ignore_errors=True)
        try:
            new.mkdir()
            write(new)
            files.rename(new, pending)  # now the new model is the current one
            files.sync_folder(folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        _finish(folder)


def _finish(folder: Path) -> None:
    """Move the files of `.pending` to the folder. It stays complete until the end, as readers may use it."""
    pending = folder / PENDING
    if (pending / FACTS).is_file():
        _put_in_place(folder, pending)
        with files.around("remove"):
            (pending / FACTS).unlink()  # from now on readers use the folder
        files.sync_folder(pending)
    if pending.is_dir():
        with files.around("remove"):
            shutil.rmtree(pending)


def _put_in_place(folder: Path, pending: Path) -> None:
    names = {path.name for path in pending.iterdir() if path.is_file() and FILE_NAME.fullmatch(path.name)}
    staged = folder / NEW
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    for name in names:
        _name_again(pending / name, staged / name)
    for name in {*_listed_files(folder)} - names:  # such as tokeniser files with other names
        (folder / name).unlink(missing_ok=True)
    for name in sorted(names, key=lambda name: (name == FACTS, name)):
        if name == FACTS:
            files.sync_folder(folder)
        files.rename(staged / name, folder / name)
    files.sync_folder(folder)
    shutil.rmtree(staged)  # after a crash it may have files: renaming a file to a hard link of itself does nothing


def _name_again(path: Path, other: Path) -> None:
    """Make a hard link, or a copy if the file system has no hard links."""
    try:
        os.link(path, other, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copyfile(path, other, follow_symlinks=False)
        files.made_durable(other)


def _listed_files(folder: Path) -> list[str]:
    try:
        names = json.loads((folder / FACTS).read_bytes())["files"]
        return [name for name in names if FILE_NAME.fullmatch(name)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
