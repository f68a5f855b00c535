"""Which files to learn from, and the sentence pairs in them: streamed, filtered and counted."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from headway.data.archives import open_regular
from headway.data.counts import Counts
from headway.data.filters import Duplicate, Filter, Longest, Uneven, empty, identical
from headway.data.formats import Invalid, Names, Reader, Row, count_lines, jsonl, parallel, refuse_counts, tsv
from headway.data.heldout import HeldOut, hold_out, is_held_out
from headway.data.tmx import tmx
from headway.errors import UsageError

READERS: dict[str, Reader] = {".tsv": tsv, ".jsonl": jsonl, ".ndjson": jsonl, ".tmx": tmx}
PACKED = {".gz", ".xz", ".zst"}


@dataclass(frozen=True)
class Corpus:
    """Two text files, or one file that holds both sides."""

    source: str  # text file, or a whole .tsv, .jsonl or .tmx file (also packed: .gz, .xz, .zst)
    target: str = ""  # text file with as many lines; empty for one-file formats
    weight: float = 1.0  # sampling weight, relative to its size
    tag: str = ""  # target language tag, for multilingual models
    source_field: str = ""  # column number (.tsv) or dotted field name (.jsonl); empty: detected
    target_field: str = ""  # as in data
    source_language: str = ""  # language to read from .tmx, or from "translation" in .jsonl
    target_language: str = ""  # as in data

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError("corpus without a source: name its file")
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"weight is {self.weight}: it must be above 0")

    def paths(self) -> tuple[Path, ...]:
        return tuple(Path(name) for name in (self.source, self.target) if name)


@dataclass(frozen=True)
class Data:
    """Files to learn from, and which of their pairs to leave out."""

    section: ClassVar[bool] = True

    source: str = ""  # training text to translate from; or a whole .tsv, .jsonl or .tmx file (.gz, .xz, .zst too)
    target: str = ""  # training text to translate into, line by line; empty for one-file formats
    dev_source: str | None = None  # validation text; unset: some pairs are held out
    dev_target: str | None = None  # translation of the validation text
    corpora: tuple[Corpus, ...] = ()  # more training files, each with weight and tag
    dev_corpora: tuple[Corpus, ...] = ()  # more validation files
    source_language: str = ""  # language to read from .tmx, or from "translation" in .jsonl
    target_language: str = ""  # the same for the target side
    source_field: str = ""  # column number (.tsv) or dotted field name (.jsonl); empty: detected
    target_field: str = ""  # the same for the target side
    dev_sentences: int = 1000  # number of pairs held out if there are no validation files, at most 5 % of all
    invalid: Invalid = "error"  # what to do with bytes that are not UTF-8 and rows without a pair: error, skip, replace
    longest: int = 250  # maximum tokens of a side; longer pairs are left out
    longest_characters: int = 5000  # maximum characters of a side; 0: no limit
    ratio: float = 12.0  # maximum ratio of the longer to the shorter side, in characters; 0: no limit
    drop_duplicates: bool = False  # leave out pairs that came before (takes 11 to 22 bytes of memory a pair)
    drop_identical: bool = False  # leave out pairs whose sides are equal
    kind: Literal["pairs"] = "pairs"

    def __post_init__(self) -> None:
        if self.longest < 1 or self.longest_characters < 0 or self.dev_sentences < 0:
            raise ValueError("longest must be 1 or more, longest_characters and dev_sentences 0 or more")
        if self.ratio != 0 and not self.ratio >= 1:
            raise ValueError(f"ratio is {self.ratio}: it must be 1 or more, or 0 for no limit")
        if self.target and not self.source:
            raise ValueError("target is set but source is not: name both files")
        if self.dev_target and not self.dev_source:
            raise ValueError("dev_target is set but dev_source is not: name both files")

    def training(self) -> tuple[Corpus, ...]:
        """All training files, `source` and `target` first."""
        chosen = (*self._own(self.source, self.target), *self.corpora)
        if not chosen:
            raise UsageError("no training data: set data.source and data.target to two text files")
        return chosen

    def validation(self) -> tuple[Corpus, ...]:
        """All validation files; none means that pairs are held out."""
        return (*self._own(self.dev_source, self.dev_target), *self.dev_corpora)

    @property
    def multilingual(self) -> bool:
        """Does every training text say by a tag which language is wanted?"""
        return bool(self.corpora) and not self.source and all(corpus.tag for corpus in self.corpora)

    def _own(self, source: str | None, target: str | None) -> tuple[Corpus, ...]:
        return (Corpus(source, target or ""),) if source else ()


class Pair(NamedTuple):
    """A sentence and its translation, and where they stand."""

    source: str
    target: str
    tag: str
    corpus: int
    line: int


# ---------------------------------------------------------------- reading


def pairs(data: Data, counts: Counts) -> Iterator[Pair]:
    """The training pairs in the order of the files, filtered and counted; memory does not grow with the files."""
    yield from _kept(data, data.training(), _filters(data), counts)


def rows(corpus: Corpus, data: Data) -> Iterator[Row]:
    """Everything one corpus holds, also what cannot be used."""
    if corpus.target:
        return parallel(Path(corpus.source), Path(corpus.target), data.invalid)
    return reader_of(corpus.source)(Path(corpus.source), data.invalid, _names(corpus, data))


def _names(corpus: Corpus, data: Data) -> Names:
    return Names(
        corpus.source_field or data.source_field,
        corpus.target_field or data.target_field,
        corpus.source_language or data.source_language,
        corpus.target_language or data.target_language,
    )


def reader_of(name: str) -> Reader:
    """How to read a file that holds both sides, by the end of its name."""
    suffixes = [suffix for suffix in Path(name.lower()).suffixes if suffix not in PACKED]
    reader = READERS.get(suffixes[-1] if suffixes else "")
    if reader is None:
        kinds = ", ".join(READERS)
        raise UsageError(f"{name}: where is its target? Name a second file, or give one file of kind {kinds}")
    return reader


def _kept(data: Data, corpora: tuple[Corpus, ...], filters: list[Filter], counts: Counts) -> Iterator[Pair]:
    for index, corpus in enumerate(corpora):
        for line, source, target, problem in rows(corpus, data):
            counts.read += 1
            if source is None or target is None:
                counts.drop(problem or "empty", corpus.source, line)
                continue
            reason = _first_reason(filters, source, target)
            if reason:
                counts.drop(reason, corpus.source, line)
                continue
            counts.kept += 1
            counts.repaired += problem is not None
            yield Pair(source, target, corpus.tag, index, line)
    if not counts.kept:
        raise UsageError(f"{corpora[0].source}:1: no usable pair: {counts.summary()}")


def _filters(data: Data) -> list[Filter]:
    chosen: list[tuple[object, Filter]] = [
        (True, empty),
        (data.longest_characters, Longest(data.longest_characters)),
        (data.ratio, Uneven(data.ratio)),
        (data.drop_identical, identical),
        (data.drop_duplicates, Duplicate()),  # last: what another filter drops takes no memory
    ]
    return [filter for wanted, filter in chosen if wanted]


def _first_reason(filters: Iterable[Filter], source: str, target: str) -> str | None:
    for filter in filters:
        if reason := filter(source, target):
            return reason
    return None


# ---------------------------------------------------------------- training and validation


def train_pairs(data: Data, seed: int, counts: Counts) -> Iterator[Pair]:
    """All training pairs but the held-out ones."""
    limit = _held_out(data, seed).limit
    for pair in pairs(data, counts):
        if limit >= 0 and is_held_out(seed, pair.source, limit):
            counts.kept -= 1
            counts.held_out += 1
        else:
            yield pair


def dev_pairs(data: Data, seed: int) -> list[Pair]:
    """The pairs to validate on: those of the validation files, or else the held-out ones (none of under 20)."""
    if data.validation():
        # Only empty pairs are left out: a measure should not be beautified.
        return list(_kept(data, data.validation(), [empty], Counts()))
    return sorted(_held_out(data, seed).examples, key=lambda pair: (pair.corpus, pair.line))


def _held_out(data: Data, seed: int) -> HeldOut[Pair]:
    if data.validation() or not data.dev_sentences:
        return HeldOut(-1, ())
    stamps = tuple(_stamp(path) for corpus in data.training() for path in corpus.paths())
    return _hold_out(data, seed, stamps)


@lru_cache(maxsize=2)
def _hold_out(data: Data, seed: int, stamps: tuple[tuple[int, int], ...]) -> HeldOut[Pair]:  # noqa: ARG001
    """One pass over the files, remembered while their stamps stay the same."""
    return hold_out(pairs(data, Counts()), seed, data.dev_sentences)


def _stamp(path: Path) -> tuple[int, int]:
    with open_regular(path) as stream:
        state = os.fstat(stream.fileno())
    return state.st_size, state.st_mtime_ns


# ---------------------------------------------------------------- files


def check_files(data: Data) -> None:
    """Look at every file before any work: it can be opened, and both sides have the same number of lines."""
    for corpus in (*data.training(), *data.validation()):
        if corpus.target:
            source, target = corpus.paths()
            sources, targets = count_lines(source), count_lines(target)
            if sources != targets:
                refuse_counts(source, target, sources, targets)
        else:
            reader_of(corpus.source)
            open_regular(Path(corpus.source)).close()


def content_key(data: Data) -> str:
    """A name for what `pairs` will give: it changes with the bytes of the files and with every filter."""
    settings = asdict(replace(data, source="", target="", dev_source=None, dev_target=None, corpora=(), dev_corpora=()))
    del settings["kind"]
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for corpus in (*data.training(), *data.validation()):
        reader = "" if corpus.target else reader_of(corpus.source).__name__
        key.update(json.dumps([corpus.tag, reader, *_names(corpus, data)]).encode())
        for path in corpus.paths():
            with open_regular(path) as stream:
                key.update(hashlib.file_digest(stream, "sha256").digest())
    return key.hexdigest()
