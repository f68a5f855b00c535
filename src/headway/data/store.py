"""An encoded corpus on disk: a cache that is rebuilt if it is missing, damaged or outdated."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Integer

from headway.data.columns import Column, RaggedColumn, sum_of
from headway.data.corpus import Pair
from headway.data.writer import CORPORA, FACTS, FORMAT, LINES, SIDES, Facts, Tokenizer, Writer
from headway.storage.files import disk_trouble
from headway.storage.sealed_json import unsealed

BLOCK = 4096  # pairs encoded and written together


class Store:
    """Encoded pairs by index. Source rows are tag, tokens and EOS; target rows are tokens only."""

    def __init__(self, folder: Path, facts: Facts) -> None:
        self.folder = folder
        self.facts = facts
        self.source, self.target = (
            RaggedColumn(folder / f"{side}.ids", folder / f"{side}.offsets", kind)
            for side, kind in zip(SIDES, facts.kinds, strict=True)
        )
        self._lines = Column(folder / LINES, "int32")
        self._corpora = Column(folder / CORPORA, "int16")

    def __len__(self) -> int:
        return self.facts.examples

    def lines(self, indices: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
        """Return the line number of each example in its corpus."""
        return self._lines.values[indices]

    def corpora(self, indices: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
        """Return the index of the corpus of each example."""
        return self._corpora.values[indices]

    def agrees(self) -> bool:
        """Return whether the sizes of the files are those in the facts."""
        count, sides = len(self), (self.source, self.target)
        return (
            sum(self.facts.corpora) == count == len(self._lines.values) == len(self._corpora.values)
            and all(len(side.offsets.values) == count + 1 for side in sides)
            and [len(side.ids.values) for side in sides] == self.facts.pieces
            and [int(side.offsets.values[-1]) for side in sides] == self.facts.pieces
        )


def place_of(folder: Path, key: str) -> Path:
    """Return the folder of a store in the cache, which may have stores of other content, too."""
    return folder / hashlib.sha256(key.encode()).hexdigest()[:16]


def open(folder: Path, key: str) -> Store | None:
    """Return the store with this content, or None if it is missing, unfinished, damaged or of another format."""
    place = place_of(folder, key)
    try:
        facts = Facts(**unsealed((place / FACTS).read_bytes()))
        if (facts.format, facts.key, facts.sums) != (FORMAT, key, {name: sum_of(place / name) for name in facts.sums}):
            return None
        store = Store(place, facts)
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        return None
    return store if store.agrees() else None


def anew(place: Path) -> list[str]:
    """Return a note that a cache cannot be opened and is rebuilt; empty if there is no cache."""
    return [f"{place} is damaged, or of another release of headway; it is made anew"] if place.exists() else []


def build(folder: Path, key: str, pairs: Iterable[Pair], source: Tokenizer, target: Tokenizer, longest: int) -> Store:
    """Encode all pairs except those empty or longer than `longest` tokens, and store them under `key`.

    All pairs of one corpus must come before those of the next.
    """
    beside = make_beside(place_of(folder, key))
    try:
        with ExitStack() as files:
            writer = Writer(beside, files, key, (source, target), longest)
            pairs = iter(pairs)
            while block := list(islice(pairs, BLOCK)):
                writer.add(block)
            writer.finish()
        _settle(beside, folder, key)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Store(place_of(folder, key), writer.facts)


def _settle(beside: Path, folder: Path, key: str) -> None:
    """Rename the finished folder into place, unless another process has finished the same one before."""
    place = place_of(folder, key)
    with disk_trouble(place, 0):
        if open(folder, key) is None and place.exists():
            shutil.rmtree(place)
        try:
            beside.rename(place)
        except OSError:
            if open(folder, key) is None:
                raise


def make_beside(place: Path) -> Path:
    """Make a temporary folder beside a path; its name has our process id, so that `sweep` removes it after a crash."""
    with disk_trouble(place, 0):
        place.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{place.name}.", suffix=f".tmp-{os.getpid()}", dir=place.parent))
