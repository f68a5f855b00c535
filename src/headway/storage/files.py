"""Atomic, durable file writes: write a temporary file, sync it, rename it. Tests inject faults at `at`."""

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

CHUNK = 4 << 20  # bytes per write
ACTS = ("write", "sync", "rename", "remove")  # fault points are before-ACT and after-ACT
FAILURES = {name.lower(): getattr(errno, name) for name in ("ENOSPC", "EIO", "EDQUOT", "EROFS", "EACCES")}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors that free space would solve
POSIX = os.name == "posix"

Buffer = bytes | memoryview


@runtime_checkable
class Writable(Protocol):
    """An open binary file, buffered or not."""

    def write(self, data: Buffer, /) -> int | None: ...
    def flush(self) -> None: ...
    def isatty(self) -> bool: ...
    def fileno(self) -> int: ...


# ---------------------------------------------------------------- fault injection


@dataclass
class Plug:
    """Calls `act` the `turn`-th time that the fault point is passed; `any` is every point, turn 0 is every time."""

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
    """Return the fault of HEADWAY_FAULT, such as `point:n:kill` or `point:n:enospc`; one that never acts if unset."""
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
    """Pass a fault point: called before and after every file operation."""
    plug().at(point)


@contextmanager
def around(act: str) -> Iterator[None]:
    at(f"before-{act}")
    yield
    at(f"after-{act}")


# ---------------------------------------------------------------- writing


@dataclass(frozen=True)
class Digest:
    """Size in bytes and checksum of a file, to verify it when it is read."""

    size: int
    sha256: str


@contextmanager
def disk_trouble(path: Path, needed: int) -> Iterator[None]:
    """Turn an OSError into a DiskError with path, reason and bytes needed. BrokenPipeError passes unchanged."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        wanted = f" ({needed:,} bytes are needed)" if needed else ""
        advice = f"{wanted}; free some space or choose another path" if error.errno in FULL else "; choose another path"
        raise DiskError(f"cannot write {path}: {error.strerror or error}{advice}") from error


def check_space(folder: Path, needed: int) -> None:
    """Raise DiskError unless twice `needed` bytes are free: old files stay until the new ones are complete."""
    with disk_trouble(folder, needed):
        free = shutil.disk_usage(folder).free
    if free < 2 * needed:
        raise DiskError(
            f"cannot write {folder}: {2 * needed:,} bytes are needed (twice the size), {free:,} are free; "
            "free some space or choose another path"
        )


def write(path: Path, pieces: Iterable[Buffer]) -> Digest:
    """Write and sync a new file; return the digest of the given bytes, whatever the disk stored."""
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
    """Yield the data in chunks of about CHUNK bytes: small pieces are joined, large ones split without a copy."""
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
    """Write all bytes, also where one call writes only a part of them, as on a disk that is nearly full."""
    part = memoryview(data)
    while part:
        part = part[file.write(part) or 0 :]


def made_durable(path: Path) -> Digest:
    """Sync a file that other code wrote, and return its digest."""
    with open(path, "rb") as file, around("sync"):
        os.fsync(file.fileno())
    return digest_of(path)


def replace(path: Path, data: bytes) -> Digest:
    """Replace the content of a file atomically: readers see the old bytes or the new ones."""
    beside = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    with disk_trouble(path, len(data)):
        try:
            beside.unlink(missing_ok=True)  # left by a crashed process with our process id
            digest = write(beside, [data])
            rename(beside, path)
            sync_folder(path.parent)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    return digest


def replace_text(path: Path, text: str) -> Digest:
    """Replace the content of a file atomically by UTF-8 text."""
    return replace(path, text.encode())


def rename(old: Path, new: Path) -> None:
    with around("rename"):
        os.replace(old, new)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that names created or renamed in it are durable."""
    if not POSIX:  # Windows cannot open folders, and stores names with files
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with around("sync"):
            os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and sync each parent."""
    missing = list(takewhile(lambda place: not place.is_dir(), (folder, *folder.parents)))
    for place in missing:
        refuse_in_the_way(place)
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)


def refuse_in_the_way(place: Path) -> None:
    """Raise UsageError if the path of a new folder is a file or a link."""
    if place.is_symlink():
        raise UsageError(f"{place} is a link to {os.readlink(place)}, which is not a folder; choose another folder")
    if place.exists():
        raise UsageError(f"{place} is a file; choose a folder")


def remove_folder(folder: Path) -> None:
    """Remove a folder. It is renamed first, so that nobody reads a half-removed folder."""
    doomed = folder.with_name(f"{folder.name.split('.tmp-')[0]}.tmp-{os.getpid()}")
    if doomed != folder:
        shutil.rmtree(doomed, ignore_errors=True)
        rename(folder, doomed)
    with around("remove"):
        shutil.rmtree(doomed)


def digest_of(path: Path) -> Digest:
    """Return size and SHA-256 of a file."""
    with open(path, "rb") as file:
        return Digest(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())
