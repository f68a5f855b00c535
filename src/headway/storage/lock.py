"""Lock files, so that only one process writes a folder: they name the holder, and a crash releases them.

The package filelock is no replacement. It locks whatever it finds at the path, also a pipe or a hard link to another
file; it does not say which process holds a lock; and it leaves its file behind, which would be published with the
model.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
import weakref
from pathlib import Path
from types import TracebackType

from headway.errors import UsageError
from headway.storage.files import POSIX, disk_trouble

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
UNFINISHED = re.compile(r".+\.tmp-(\d{1,10})")


def alive(pid: int) -> bool:
    """Return whether a process with this id runs on this machine."""
    if not POSIX:  # on Windows, signal 0 would interrupt the process
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it belongs to another user, but it runs
        return True
    return pid > 0


def sweep(folder: Path) -> None:
    """Remove temporary files of crashed processes from a folder."""
    for path in folder.iterdir() if folder.is_dir() else ():
        found = UNFINISHED.fullmatch(path.name)
        if not found or (int(found[1]) != os.getpid() and alive(int(found[1]))):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class Lock:
    """A lock that is held from `take` to `release` or the end of the process. A crashed holder's lock is taken over.

    `patience`: seconds to wait for another holder before UsageError.
    """

    def __init__(self, path: Path, patience: float = 0.0) -> None:
        self.path, self.patience = path, patience
        self._release: weakref.finalize | None = None

    def take(self) -> None:
        if self._release is not None:
            return
        with disk_trouble(self.path, 64):
            file = self._open()
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, f"{os.getpid()}\n".encode())
        self._release = weakref.finalize(self, _let_go, file, self.path, os.getpid())

    def release(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None

    def _open(self) -> int:
        until = time.monotonic() + self.patience
        while True:
            file = _open_ours(self.path)
            holder = _holder(file)
            if _is_taken(file, holder):
                os.close(file)
                if time.monotonic() < until:
                    time.sleep(0.02)
                    continue
                raise UsageError(
                    f"{self.path.parent} is being written by process {holder or 'unknown'}: "
                    "wait until it ends, stop it, or use another folder"
                )
            if _is_same(file, self.path):
                return file
            os.close(file)  # its holder has just removed the file: try again

    def __enter__(self) -> Lock:
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _open_ours(path: Path) -> int:
    """Open or create the lock file; UsageError for anything that another user may have put there, such as a link."""
    try:
        file = os.open(path, FLAGS, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UsageError(f"{path} is a link, which a lock must not be; remove it") from None
    found = os.fstat(file)
    foreign = POSIX and (found.st_uid != os.geteuid() or found.st_nlink > 1)
    if foreign or not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise UsageError(
            f"{path} must be a regular file of your own to serve as a lock; remove it, or use another folder"
        )
    return file


def _holder(file: int) -> int:
    found = re.match(rb"\d{1,10}", os.read(file, 20))
    return int(found[0]) if found else 0


def _is_taken(file: int, holder: int) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks: rely on the process id
        return holder != os.getpid() and alive(holder)
    return False


def _is_same(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _let_go(file: int, path: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not release its parent's lock
        path.unlink(missing_ok=True)
    os.close(file)
