"""Temporary folders, private to a process; those of crashed processes are removed at the next start.

`tempfile.TemporaryDirectory` alone leaves its folder behind when its process is killed.
"""

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
YOUNG = 60.0  # seconds for which a new folder without a lock is not removed


class Folder:
    """A new folder that only this user can read, and that exists until `remove`.

    Its lock shows that the process lives, also to processes in other containers or on machines that share the folder.
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
    """Return the prefix of the names of all folders of this kind."""
    return f"headway-{kind}-"


def sweep(kind: str) -> None:
    """Remove the folders of this kind whose processes have ended."""
    if fcntl is None:
        return
    try:
        for path in Path(tempfile.gettempdir()).glob(f"{prefix(kind)}*"):
            if is_ours(path) and is_left(path):
                shutil.rmtree(path, ignore_errors=True)
    except OSError:  # a folder cannot be listed, or was removed meanwhile
        return


def is_ours(path: Path) -> bool:
    """Return whether a path is a folder of this user and not a link."""
    return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid()


def is_left(path: Path) -> bool:
    """Return whether no process holds the lock of a folder."""
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
