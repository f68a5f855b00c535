"""Open plain and compressed files as bytes, safely: no pipes, no decompression bombs."""

from __future__ import annotations

import errno
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Callable
from io import BufferedReader, FileIO, RawIOBase
from pathlib import Path
from typing import Protocol, runtime_checkable

from headway.errors import UsageError

LARGEST_RATIO = 200  # most uncompressed bytes for each compressed byte; text rarely has more than 10
ALWAYS_ALLOWED = 16 << 20  # uncompressed bytes that are allowed whatever the ratio
PIECE = 1 << 18  # bytes read at once

# Four bytes of a zst file can decompress to 128 KiB, so 512 bytes give at most 16 MiB at a time.
ZST_PIECE = 512

FOREIGN = {
    b"PK\x03\x04": "is a zip archive; unpack it first with unzip",
    b"BZh91AY&SY": "is packed with bzip2; unpack it first with bunzip2",
    b"7z\xbc\xaf": "is a 7z archive; unpack it first",
    b"\xff\xfe": "is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8",
}


@runtime_checkable
class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def open_bytes(path: Path) -> BufferedReader:
    """Open a file as a stream of bytes, decompressed if its first bytes are those of gz, xz or zst."""
    plain = open_regular(path)
    start = plain.peek(8)
    for magic, unpack in UNPACKERS.items():
        if start.startswith(magic):
            return BufferedReader(Unpacked(path, plain, unpack(plain)), PIECE)
    return plain


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file as a stream of bytes; UsageError if it is missing, unreadable or, for example, a pipe."""
    try:
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind):
            raise UsageError(f"{path}: {_say_kind(kind)}; give a regular file, it is read more than once")
        return BufferedReader(FileIO(path), PIECE)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {_say_reason(error)}") from None


def refuse_foreign(path: Path, start: bytes) -> None:
    """Raise UsageError if a file's first bytes are those of another format, such as zip or UTF-16."""
    for magic, reason in FOREIGN.items():
        if start.startswith(magic):
            raise UsageError(f"{path}:1: {reason}")


def _say_kind(kind: int) -> str:
    names = {stat.S_IFDIR: "is a directory", stat.S_IFIFO: "is a pipe", stat.S_IFSOCK: "is a socket"}
    return names.get(stat.S_IFMT(kind), "is a device")


def _say_reason(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return f"not a usable file name ({error})"
    reasons = {
        errno.ENOENT: "no such file",
        errno.EACCES: "no permission to read it",
        errno.ELOOP: "a symbolic link that leads back to itself",
        errno.ENOTDIR: "part of the path is not a directory",
    }
    return reasons.get(error.errno or 0, f"cannot be read: {error.strerror or error}")


class Unpacked(RawIOBase):
    """A stream of the decompressed bytes of a file; UsageError if it is truncated, damaged or a decompression bomb."""

    def __init__(self, path: Path, packed: BufferedReader, stream: Readable) -> None:
        self.path, self.packed, self.stream = path, packed, stream
        self.limit = max(ALWAYS_ALLOWED, LARGEST_RATIO * os.fstat(packed.fileno()).st_size)
        self.size = 0
        self.lines = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            piece = self.stream.read(len(buffer))
        except EOFError:
            raise UsageError(
                f"{self._where()}: the compressed file is truncated near here; download it again"
            ) from None
        except (OSError, zlib.error, lzma.LZMAError, DamagedError) as error:
            raise UsageError(
                f"{self._where()}: the compressed file is damaged near here ({error}); download it again"
            ) from None
        self.size += len(piece)
        self.lines += piece.count(b"\n")
        if self.size > self.limit:
            reason = f"decompresses to more than {LARGEST_RATIO} times its size, more than text does"
            raise UsageError(f"{self._where()}: {reason}; decompress it yourself if you trust it")
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self.packed.close()
        super().close()

    def _where(self) -> str:
        return f"{self.path}:{self.lines + 1}"


class DamagedError(Exception):
    """Compressed data is damaged."""


class Zst:
    """A stream that decompresses zst frames; the library's own stream does not notice a truncated file."""

    def __init__(self, packed: BufferedReader) -> None:
        try:
            import zstandard
        except ImportError:
            raise UsageError(".zst files need the package zstandard; run pip install 'headway-mt[zst]'") from None
        self.packed, self.library = packed, zstandard
        self.frame = None
        self.ready = b""
        self.rest = b""

    def read(self, size: int, /) -> bytes:
        while not self.ready:
            piece = self.rest or self.packed.read(ZST_PIECE)
            if not piece and self.frame is None:
                return b""
            if not piece:
                raise EOFError
            self.ready = self._unpack(piece)
        taken, self.ready = self.ready[:size], self.ready[size:]
        return taken

    def _unpack(self, piece: bytes) -> bytes:
        frame = self.frame or self.library.ZstdDecompressor().decompressobj()
        try:
            text = frame.decompress(piece)
        except self.library.ZstdError as error:
            raise DamagedError(str(error)) from None
        self.rest = frame.unused_data
        self.frame = None if frame.eof else frame
        return text


def _gz(packed: BufferedReader) -> Readable:
    return gzip.GzipFile(fileobj=packed)


UNPACKERS: dict[bytes, Callable[[BufferedReader], Readable]] = {
    b"\x1f\x8b": _gz,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": Zst,
}
