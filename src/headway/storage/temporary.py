"""Folders for temporary files, private to a process. Those of processes that were killed go at the next start."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK = ".lock"
YOUNG = 60.0  # seconds in which a new folder may still have no lock


class Folder:
    """A new folder that only this user can read, until `remove` or the end of the process.

    A lock says that its process lives, also to processes that cannot see it: machines that share a folder, containers.
    """

    def __init__(self, kind: str) -> None:
        sweep(kind)
        self.path = Path(tempfile.mkdtemp(prefix=prefix(kind)))
        self.lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        if fcntl is not None:
            fcntl.flock(self.lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def prefix(kind: str) -> str:
    return f"headway-{kind}-"


def sweep(kind: str) -> None:
    """Remove the folders of this kind whose processes are gone."""
    if fcntl is None:
        return
    try:
        for path in Path(tempfile.gettempdir()).glob(f"{prefix(kind)}*"):
            if is_ours(path) and is_left(path):
                shutil.rmtree(path, ignore_errors=True)
    except OSError:  # a folder that cannot be listed, or is gone meanwhile
        return


def is_ours(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid()


def is_left(path: Path) -> bool:
    """Whether nobody holds its lock."""
    assert fcntl is not None
    try:
        file = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return time.time() - path.stat().st_mtime > YOUNG
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(file)
    return True
