"""Columns of integers in files: written with checksums, verified when opened, and memory-mapped."""

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

AT_ONCE = 2048  # rows read before their memory pages are released
PIECE = 1 << 20  # bytes read at a time for a checksum

Sum = list[int]  # size of a file in bytes, and its CRC-32, which runs at about 4 GB/s


class NewColumn:
    """A file of integers being written. Its checksum is that of the given data, whatever the disk stored."""

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
    """Return the checksum of a file on disk, in constant memory."""
    size, crc = 0, 0
    with path.open("rb") as file:
        while data := file.read(PIECE):
            size, crc = size + len(data), zlib.crc32(data, crc)
    return [size, crc]


class Column:
    """A memory-mapped file of integers of the NumPy type `kind`."""

    def __init__(self, path: Path, kind: str) -> None:
        with path.open("rb") as file:
            empty = path.stat().st_size == 0  # an empty file cannot be mapped
            self._map = None if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.values = np.frombuffer(self._map or b"", np.dtype(kind))

    def release(self) -> None:
        """Release the memory pages read so far; they stay in the system's cache."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


class RaggedColumn:
    """Rows of ids in two files: the ids, and the offset of each row."""

    def __init__(self, ids: Path, offsets: Path, kind: str) -> None:
        self.ids = Column(ids, kind)
        self.offsets = Column(offsets, "int64")

    def lengths(self, indices: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
        return self.offsets.values[indices + 1] - self.offsets.values[indices]

    def ragged(self, indices: Integer[np.ndarray, " n"]) -> Ragged:
        """Return the rows at `indices`, which are fastest in ascending order; memory is that of the result."""
        parts = []
        for start in range(0, max(1, len(indices)), AT_ONCE):
            some = indices[start : start + AT_ONCE]
            parts.append(gather(self.ids.values, self.offsets.values[some], self.lengths(some)))
            self.ids.release()
            self.offsets.release()
        return join(parts)
