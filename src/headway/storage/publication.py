"""How the files of a model folder are exchanged in one instant, and how they are read meanwhile.

A writer makes a new model whole in `.new`, and renames that to `.pending`: from then on it is the model. Then its files
go to their places, and `.pending` is removed. A reader prefers a whole `.pending` to the files of the folder. So it
never moves, locks or writes anything: the folder may be read-only, or a stranger's.
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

FACTS = "headway.json"  # written last: a folder that holds it is whole
NEW, PENDING, LOCK = ".new", ".pending", ".lock"
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
PATIENCE = 5.0  # seconds for which a reader tries again while models are published

Found = TypeVar("Found")


# ---------------------------------------------------------------- reading


def place_of(folder: Path) -> Path:
    """Where the files of the newest whole model lie: the folder, or its `.pending` if a writer has not finished."""
    pending = folder / PENDING
    return pending if os.path.isfile(pending / FACTS) and not os.path.islink(pending) else folder


def newest(folder: Path, read: Callable[[Path], Found]) -> Found:
    """What `read` makes of the place of the newest model; read again if a model was published meanwhile."""
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
    """Changes when a model is published, and again when all its files are in their places."""
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
    """Exchange the model for the one that `write` puts into an empty folder, its facts last and all durable.

    Killed at any instant, the folder is the old model or the new one, never a mixture.
    """
    new, pending = folder / NEW, folder / PENDING
    for path in (new, pending):
        if path.is_symlink():
            raise UsageError(f"{path} is a link, and nothing is written through it; remove it, or use another folder")
    with Lock(folder / LOCK):
        _finish(folder)
        shutil.rmtree(new, ignore_errors=True)
        try:
            new.mkdir()
            write(new)
            files.rename(new, pending)  # from here on it is the new model
            files.sync_folder(folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        _finish(folder)


def _finish(folder: Path) -> None:
    """Bring what is pending to its place. It stays whole until all is there, so that readers may go on reading it."""
    pending = folder / PENDING
    if (pending / FACTS).is_file():
        _put_in_place(folder, pending)
        with files.around("remove"):
            (pending / FACTS).unlink()  # from here on the folder is read
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
    for name in {*_listed_files(folder)} - names:  # tokenizers of other names
        (folder / name).unlink(missing_ok=True)
    for name in sorted(names, key=lambda name: (name == FACTS, name)):
        if name == FACTS:
            files.sync_folder(folder)
        files.rename(staged / name, folder / name)
    files.sync_folder(folder)
    shutil.rmtree(staged)  # not empty after a kill: renaming a file to another of its own names does nothing


def _name_again(path: Path, other: Path) -> None:
    """Give a file a second name; copy it where the file system knows no second names."""
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
