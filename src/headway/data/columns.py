"""Numbers in files, mapped into memory."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
from jaxtyping import Integer

from headway.data.rows import gather, join
from headway.text.ragged import Ragged

AT_ONCE = 2048  # rows read before the pages they lie on are given back


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
