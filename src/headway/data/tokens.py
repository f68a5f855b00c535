"""An encoded text as one memory-mapped row of ids: a cache that is rebuilt if it is missing or damaged."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Integer

from headway.data.columns import Column, NewColumn, Sum, sum_of
from headway.data.documents import Amounts, Encoder, Line, Reading
from headway.data.rows import pack
from headway.data.store import make_beside, place_of
from headway.storage.files import disk_trouble, write
from headway.storage.sealed_json import sealed, unsealed
from headway.text.vocabulary import BOS

FORMAT = 2  # 1 had no checksums
FACTS, IDS, PLACES = "facts.json", "ids", "places"


@dataclass
class Facts:
    """Metadata of an encoded text; written last, so that a folder with this file is complete."""

    key: str  # hash of files, settings and tokeniser
    kind: str  # NumPy type of the ids
    amounts: Amounts = field(default_factory=Amounts)
    sums: dict[str, Sum] = field(default_factory=dict)  # checksum of each file
    format: int = FORMAT


class Tokens:
    """All documents concatenated, each with BOS, tokens and EOS; `places` has the line of every token."""

    def __init__(self, folder: Path, facts: Facts) -> None:
        self.facts = facts
        self._ids = Column(folder / IDS, facts.kind)
        self._places = Column(folder / PLACES, "int64")

    def __len__(self) -> int:
        return len(self._ids.values)

    def ring(self, starts: Integer[np.ndarray, " n"], length: int) -> Integer[np.ndarray, "n {length}"]:
        """Return rows of `length` tokens from the given positions; after the last token the first follows."""
        wanted = (starts[:, None] + np.arange(length)) % len(self)
        rows = self._ids.values[wanted].astype(np.int64)
        self._ids.release()
        return rows

    def documents(self) -> Iterator[Integer[np.ndarray, " t"]]:
        """Yield the ids of each document, beginning with BOS."""
        begins = [*np.flatnonzero(self._ids.values == BOS).tolist(), len(self)]
        for start, stop in zip(begins, begins[1:], strict=False):
            yield self._ids.values[start:stop].astype(np.int64)

    def place(self, token: int) -> tuple[int, int]:
        """Return the index of the file and the line number of a token."""
        offsets, files, numbers = self._places.values.reshape(-1, 3).T
        index = int(np.searchsorted(offsets, token, side="right")) - 1
        return int(files[index]), int(numbers[index])


def open_tokens(folder: Path, key: str) -> Tokens | None:
    """Return the text with this content, or None if it is missing, unfinished, damaged or of another format."""
    place = place_of(folder, key)
    try:
        table = unsealed((place / FACTS).read_bytes())
        facts = Facts(**{**table, "amounts": Amounts(**table["amounts"])})
        sums = {name: sum_of(place / name) for name in (IDS, PLACES)}
        sound = (facts.format, facts.key, facts.sums) == (FORMAT, key, sums)
        return Tokens(place, facts) if sound else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def build_tokens(folder: Path, key: str, reading: Reading, lines: Iterable[Line], pieces: Encoder, size: int) -> Tokens:
    """Encode a text block by block and store it under `key`; `size` is that of the vocabulary."""
    place = place_of(folder, key)
    beside = make_beside(place)
    facts = Facts(key, "uint16" if size < 2**16 else "uint32")
    try:
        with ExitStack() as files:
            with disk_trouble(folder, 0):
                ids, places = (files.enter_context(NewColumn(beside / name)) for name in (IDS, PLACES))
            written = 0
            for block, rows in reading.encoded(lines, pieces):
                packed = pack(rows, facts.kind)
                where = [(written + offset, *line[1:3]) for line, offset in zip(block, packed.offsets, strict=False)]
                columns = {ids: packed.flat, places: np.array(where, np.int64)}
                with disk_trouble(folder, sum(numbers.nbytes for numbers in columns.values())):
                    for column, numbers in columns.items():
                        column.write(numbers)
                written += len(packed.flat)
                facts.amounts.add(block, rows)
            with disk_trouble(folder, 0):
                for column in (ids, places):
                    column.sync()
                facts.sums = {IDS: ids.sum, PLACES: places.sum}
                write(beside / FACTS, [sealed(asdict(facts))])
        with disk_trouble(place, 0):
            shutil.rmtree(place, ignore_errors=True)
            beside.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Tokens(place, facts)
