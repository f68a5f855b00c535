"""Write the files of a store: pairs are encoded block by block, in bounded memory."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from headway.data.columns import NewColumn, Sum
from headway.data.corpus import Pair
from headway.data.rows import pack
from headway.errors import UsageError
from headway.storage.files import disk_trouble, write
from headway.storage.sealed_json import sealed
from headway.text.vocabulary import EOS

FORMAT = 2  # 1 had no checksums
SIDES = ("source", "target")
FACTS = "facts.json"
LINES, CORPORA = "lines", "corpora"
SHOWN = 10  # most places recorded for each reason


@runtime_checkable
class Tokenizer(Protocol):
    """Encodes texts to ids; `tags` are the ids of language tags."""

    @property
    def tags(self) -> dict[str, int]: ...
    def __len__(self) -> int: ...
    def encode_many(self, texts: list[str]) -> list[list[int]]: ...


@dataclass
class Facts:
    """Metadata of a store; written last, so that a folder with this file is complete."""

    key: str  # hash of corpora, filters and tokenisers
    kinds: list[str]  # NumPy types of the ids of source and target
    examples: int = 0
    corpora: list[int] = field(default_factory=list)  # number of examples of each corpus
    pieces: list[int] = field(default_factory=lambda: [0, 0])  # number of ids of source and target
    longest: list[int] = field(default_factory=lambda: [0, 0])  # length of the longest row of source and target
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> number of pairs
    places: dict[str, list[list[int]]] = field(default_factory=dict)  # reason -> corpus and line of the first pairs
    sums: dict[str, Sum] = field(default_factory=dict)  # checksum of each file
    format: int = FORMAT

    def count(self, corpora: list[int]) -> None:
        """Count new examples by corpus; examples of one corpus must be consecutive."""
        for corpus in corpora:
            if corpus < len(self.corpora) - 1:
                raise ValueError(f"a pair of corpus {corpus} comes after one of {len(self.corpora) - 1}")
            self.corpora += [0] * (corpus + 1 - len(self.corpora))
            self.corpora[corpus] += 1
        self.examples += len(corpora)

    def drop(self, reason: str, pair: Pair) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        if self.dropped[reason] <= SHOWN:
            self.places.setdefault(reason, []).append([pair.corpus, pair.line])


class Writer:
    """Appends pairs to a new store."""

    def __init__(
        self, folder: Path, files: ExitStack, key: str, tokenizers: tuple[Tokenizer, Tokenizer], longest: int
    ) -> None:
        self.facts = Facts(key, ["uint16" if len(tokenizer) < 2**16 else "uint32" for tokenizer in tokenizers])
        self._folder, self._tokenizers, self._longest = folder, tokenizers, longest
        names = [*(f"{side}.{column}" for side in SIDES for column in ("ids", "offsets")), LINES, CORPORA]
        with disk_trouble(folder.parent, 0):
            self._files = {name: files.enter_context(NewColumn(folder / name)) for name in names}
        self._append({f"{side}.offsets": np.zeros(1, np.int64) for side in SIDES})

    def add(self, pairs: list[Pair]) -> None:
        source, target = self._tokenizers
        kept, sources, targets = [], [], []
        rows = zip(
            source.encode_many([pair.source for pair in pairs]),
            target.encode_many([pair.target for pair in pairs]),
            strict=True,
        )
        for pair, (ours, theirs) in zip(pairs, rows, strict=True):
            if reason := self._reason(ours, theirs):
                self.facts.drop(reason, pair)
                continue
            kept.append(pair)
            sources.append([*self._tag(pair), *ours, EOS])
            targets.append(theirs)
        lines, corpora = (pair.line for pair in kept), (pair.corpus for pair in kept)
        self._append(
            {
                **self._columns(0, sources),
                **self._columns(1, targets),
                LINES: np.fromiter(lines, np.int32, len(kept)),
                CORPORA: np.fromiter(corpora, np.int16, len(kept)),
            }
        )
        self.facts.count([pair.corpus for pair in kept])

    def finish(self) -> None:
        """Sync all files, then write the metadata."""
        with disk_trouble(self._folder.parent, 0):
            for file in self._files.values():
                file.sync()
            self.facts.sums = {name: file.sum for name, file in self._files.items()}
            write(self._folder / FACTS, [sealed(asdict(self.facts))])

    def _columns(self, side: int, rows: list[list[int]]) -> dict[str, np.ndarray]:
        """Return the data that new rows of one side append to its files."""
        facts, packed = self.facts, pack(rows, self.facts.kinds[side])
        offsets = packed.offsets[1:] + facts.pieces[side]
        facts.pieces[side] += len(packed.flat)
        facts.longest[side] = max(facts.longest[side], int(packed.lengths.max(initial=0)))
        return {f"{SIDES[side]}.ids": packed.flat, f"{SIDES[side]}.offsets": offsets}

    def _append(self, columns: dict[str, np.ndarray]) -> None:
        with disk_trouble(self._folder.parent, sum(column.nbytes for column in columns.values())):
            for name, column in columns.items():
                self._files[name].write(column)

    def _reason(self, source: list[int], target: list[int]) -> str | None:
        """Return the reason to drop a pair, or None."""
        for side, pieces in zip(SIDES, (source, target), strict=True):
            if not pieces:
                return f"{side} empty"
            if len(pieces) > self._longest:
                return f"{side} longer than {self._longest} tokens"
        return None

    def _tag(self, pair: Pair) -> list[int]:
        tags = self._tokenizers[0].tags
        if pair.tag and pair.tag not in tags:
            raise UsageError(f"tag {pair.tag!r} is not in the vocabulary; known: {', '.join(tags) or 'none'}")
        return [tags[pair.tag]] if pair.tag else []
