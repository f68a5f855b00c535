"""Files that are whole or absent: written beside, made durable, renamed. Tests pull the plug at `at`."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Protocol, runtime_checkable

from headway.errors import DiskError, UsageError

CHUNK = 4 << 20  # bytes given to the disk at a time
ACTS = ("write", "sync", "rename", "remove")  # each is passed as before-ACT and after-ACT
FAILURES = {name.lower(): getattr(errno, name) for name in ("ENOSPC", "EIO", "EDQUOT", "EROFS", "EACCES")}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # room is missing, not a right or a folder
POSIX = os.name == "posix"

Buffer = bytes | memoryview


@runtime_checkable
class Writable(Protocol):
    """An open file, with or without a buffer."""

    def write(self, data: Buffer, /) -> int | None: ...
    def flush(self) -> None: ...
    def isatty(self) -> bool: ...
    def fileno(self) -> int: ...


# ---------------------------------------------------------------- the plug


@dataclass
class Plug:
    """Dies or fails the `turn`-th time `point` is passed; `any` is every point, turn 0 every time."""

    point: str
    turn: int
    act: Callable[[], None]
    passed: int = 0

    def at(self, point: str) -> None:
        if self.point not in (point, "any"):
            return
        self.passed += 1
        if self.turn in (self.passed, 0):
            self.act()


@cache
def plug() -> Plug:
    """What HEADWAY_FAULT asks for, as `point:n:kill` or `point:n:enospc`; read once. Without it, nothing."""
    text = os.environ.get("HEADWAY_FAULT", "")
    if not text:
        return Plug("", 0, lambda: None)
    point, _, rest = text.partition(":")
    turn, _, act = rest.partition(":")
    known = ["any", *(f"{when}-{act}" for act in ACTS for when in ("before", "after"))]
    if point not in known or not turn.isdecimal() or act not in ("kill", *FAILURES):
        raise UsageError(
            f"HEADWAY_FAULT={text}: write it as point:n:act, the point one of {', '.join(known)}, "
            f"the act one of kill, {', '.join(FAILURES)}"
        )
    return Plug(point, int(turn), _kill if act == "kill" else lambda: _fail(FAILURES[act]))


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fail(code: int) -> None:
    raise OSError(code, os.strerror(code))


def at(point: str) -> None:
    """Every step that could be the last one is told here, before and after."""
    plug().at(point)


@contextmanager
def around(act: str) -> Iterator[None]:
    at(f"before-{act}")
    yield
    at(f"after-{act}")


# ---------------------------------------------------------------- writing


@dataclass(frozen=True)
class Digest:
    """What a file must still be when it is read again."""

    size: int
    sha256: str


@contextmanager
def disk_trouble(path: Path, needed: int) -> Iterator[None]:
    """Turn what the disk says into one line: where, why, how many bytes were wanted. A closed pipe is no disk."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        wanted = f" ({needed:,} bytes are needed)" if needed else ""
        advice = f"{wanted}; make room or name another place" if error.errno in FULL else "; name another place"
        raise DiskError(f"cannot write {path}: {error.strerror or error}{advice}") from error


def check_space(folder: Path, needed: int) -> None:
    """Twice the size must be free: what is there stays until the new is whole."""
    with disk_trouble(folder, needed):
        free = shutil.disk_usage(folder).free
    if free < 2 * needed:
        raise DiskError(
            f"cannot write {folder}: {2 * needed:,} bytes are needed (twice the size), {free:,} are free; "
            "make room or name another place"
        )


def write(path: Path, pieces: Iterable[Buffer]) -> Digest:
    """Write a new file and make it durable. The digest is of what was meant, not of what the disk kept."""
    digest, size = hashlib.sha256(), 0
    with open(path, "xb", buffering=0) as file:
        for part in _in_chunks(pieces):
            digest.update(part)
            size += len(part)
            with around("write"):
                write_all(file, part)
        with around("sync"):
            os.fsync(file.fileno())
    return Digest(size, digest.hexdigest())


def _in_chunks(pieces: Iterable[Buffer]) -> Iterator[memoryview]:
    """Small pieces together, large ones in parts and without a copy."""
    small = bytearray()
    for piece in map(memoryview, pieces):
        if small and len(small) + len(piece) > CHUNK:
            yield memoryview(small)
            small = bytearray()
        if len(piece) <= CHUNK:
            small += piece
        else:
            yield from (piece[start : start + CHUNK] for start in range(0, len(piece), CHUNK))
    if small:
        yield memoryview(small)


def write_all(file: Writable, data: Buffer) -> None:
    """Write all bytes. A file without a buffer has nothing left to write, and to fail with, when it is closed."""
    part = memoryview(data)
    while part:  # a disk that is nearly full takes less than it is given
        part = part[file.write(part) or 0 :]


def made_durable(path: Path) -> Digest:
    """The digest of a file that somebody else wrote, which the disk then keeps."""
    with open(path, "rb") as file, around("sync"):
        os.fsync(file.fileno())
    return digest_of(path)


def replace(path: Path, data: bytes) -> Digest:
    """Exchange a file's content in one instant: a reader sees the old bytes or the new ones."""
    beside = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    with disk_trouble(path, len(data)):
        try:
            beside.unlink(missing_ok=True)  # of a dead process that had our number
            digest = write(beside, [data])
            rename(beside, path)
            sync_folder(path.parent)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    return digest


def replace_text(path: Path, text: str) -> Digest:
    return replace(path, text.encode())


def rename(old: Path, new: Path) -> None:
    with around("rename"):
        os.replace(old, new)


def sync_folder(folder: Path) -> None:
    """A name is durable only when its folder is."""
    if not POSIX:  # Windows cannot open a folder, and keeps names with the files
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with around("sync"):
            os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each durable in its parent."""
    missing = list(takewhile(lambda place: not place.is_dir(), (folder, *folder.parents)))
    for place in missing:
        refuse_in_the_way(place)
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)


def refuse_in_the_way(place: Path) -> None:
    """Refuse to make a folder where something else has the name: a file, or a link to nothing."""
    if place.is_symlink():
        raise UsageError(f"{place} is a link to {os.readlink(place)}, which is no folder; name another folder")
    if place.exists():
        raise UsageError(f"{place}: this is a file; name a folder")


def remove_folder(folder: Path) -> None:
    """Take the name away first, so that nobody meets a folder that is half gone."""
    doomed = folder.with_name(f"{folder.name.split('.tmp-')[0]}.tmp-{os.getpid()}")
    if doomed != folder:
        shutil.rmtree(doomed, ignore_errors=True)
        rename(folder, doomed)
    with around("remove"):
        shutil.rmtree(doomed)


def digest_of(path: Path) -> Digest:
    with open(path, "rb") as file:
        return Digest(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())
