"""Numbers in files: written with a checksum, checked when they are opened, and mapped into memory."""

from __future__ import annotations

import mmap
import os
import zlib
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Integer

from headway.data.rows import gather, join
from headway.storage.files import write_all
from headway.text.ragged import Ragged

AT_ONCE = 2048  # rows read before the pages they lie on are given back
PIECE = 1 << 20  # bytes read at a time for a checksum

Sum = list[int]  # bytes of a file, and their CRC-32: 4 GB a second, and chance damage passes once in 4 billion times


class NewColumn:
    """A file of numbers being written. Its checksum is of what was meant, not of what the disk kept."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self.sum: Sum = [0, 0]

    def write(self, numbers: np.ndarray) -> None:
        data = numbers.tobytes()
        write_all(self._file, data)
        self.sum = [self.sum[0] + len(data), zlib.crc32(data, self.sum[1])]

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def __enter__(self) -> NewColumn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def sum_of(path: Path) -> Sum:
    """The checksum of a file as it lies on the disk, in flat memory."""
    size, crc = 0, 0
    with path.open("rb") as file:
        while data := file.read(PIECE):
            size, crc = size + len(data), zlib.crc32(data, crc)
    return [size, crc]


class Column:
    """The numbers of one file."""

    def __init__(self, path: Path, kind: str) -> None:
        with path.open("rb") as file:
            empty = path.stat().st_size == 0  # which cannot be mapped
            self._map = None if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.values = np.frombuffer(self._map or b"", np.dtype(kind))

    def release(self) -> None:
        """Give back the pages touched so far. They stay in the system's cache but not in our memory."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


class RaggedColumn:
    """Rows of ids: one file with the ids, one with where each row begins."""

    def __init__(self, ids: Path, offsets: Path, kind: str) -> None:
        self.ids = Column(ids, kind)
        self.offsets = Column(offsets, "int64")

    def lengths(self, indices: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
        return self.offsets.values[indices + 1] - self.offsets.values[indices]

    def ragged(self, indices: Integer[np.ndarray, " n"]) -> Ragged:
        """The rows at `indices`. In ascending order they cost least; memory is that of the result."""
        parts = []
        for start in range(0, max(1, len(indices)), AT_ONCE):
            some = indices[start : start + AT_ONCE]
            parts.append(gather(self.ids.values, self.offsets.values[some], self.lengths(some)))
            self.ids.release()
            self.offsets.release()
        return join(parts)
