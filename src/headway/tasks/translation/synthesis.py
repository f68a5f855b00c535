"""Corpora that a model makes: a teacher's translations to learn from, and sources for text that has none.

The folder is an ordinary corpus, two text files line by line, and facts.json, which says how it was made. The same
order again goes on after an interruption; another order never touches it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from headway.data.formats import count_lines, refuse_counts
from headway.errors import UsageError
from headway.metrics import sentence_chrf
from headway.storage.files import digest_of, disk_trouble, make_folder, rename, replace_text, sync_folder
from headway.storage.folder import WEIGHTS
from headway.storage.lock import Lock
from headway.storage.publication import place_of
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.translation.file_translation import Files, translate_lines
from headway.tasks.translation.output_columns import OutputColumns
from headway.tasks.translation.translator import Translator
from headway.version import installed

FACTS = "facts.json"
LOCK = "writing"
DRAFT = "draft.tsv"  # what the model has written so far
UNFINISHED = ".unfinished"
DECODING = ("beam", "alpha", "n_best", "temperature", "seed", "to")  # what an order says of it
SURE = sys.float_info.min  # the smallest confidence above 0: only runaways and loops have less


@dataclass(frozen=True)
class Making:
    """A text, the model that reads it, and the folder where text and translation will lie side by side."""

    kind: str  # distillation or back-translation
    model: Path
    text: Path
    folder: Path
    decoding: DecodingOptions
    reference: Path | None = None
    beside: tuple[Path, ...] = ()  # models that write together with it

    def __post_init__(self) -> None:
        if self.reference is not None and self.decoding.n_best < 2:
            raise UsageError("there is nothing to choose from with one hypothesis; give --beam 2 or more with --target")

    def order(self, engine: str) -> dict[str, Any]:
        """What makes two orders the same: contents, not the names of files."""
        paths = {"weights": place_of(self.model) / WEIGHTS, "text": self.text, "reference": self.reference}
        paths |= {f"model beside ({n})": place_of(folder) / WEIGHTS for n, folder in enumerate(self.beside, 1)}
        digests = {name: checksum(path) for name, path in paths.items() if path is not None}
        decoding = {name: getattr(self.decoding, name) for name in DECODING}
        return {"kind": self.kind, **digests, **decoding, "engine": engine}

    def begin(self, engine: str) -> dict[str, Any]:
        """Take the folder, or go on in it; the facts so far."""
        if self.reference is not None:
            counts = count_lines(self.text), count_lines(self.reference)
            if counts[0] != counts[1]:
                refuse_counts(self.text, self.reference, *counts)
        order, facts = self.order(engine), read_facts(self.folder)
        if facts and facts["order"] != order:
            other = next(key for key in {**order, **facts["order"]} if order.get(key) != facts["order"].get(key))
            raise UsageError(
                f"{self.folder} holds a corpus that was made with another {other}; name another folder with --out"
            )
        if not facts:
            names = {"model": self.model, "text": self.text, "reference": self.reference}
            origin: dict[str, Any] = {name: str(path) for name, path in names.items() if path}
            origin |= {"beside": [str(folder) for folder in self.beside]} if self.beside else {}
            facts = {"headway": installed("headway"), **origin, "order": order, "complete": False}
            self.write_facts(facts)
        return facts

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        replace_text(self.folder / FACTS, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def checksum(path: Path) -> str:
    try:
        return digest_of(path).sha256
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_facts(folder: Path) -> dict[str, Any]:
    """What an earlier order left; the folder must be its own, empty or new."""
    if not folder.is_dir() or not (found := {path.name for path in folder.iterdir()} - {LOCK}):
        return {}
    try:
        facts = json.loads((folder / FACTS).read_bytes())
        if isinstance(facts["order"], dict) and "complete" in facts:
            return facts
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UsageError(f"--out {folder}: the folder holds something else ({sorted(found)[0]}); name a new one")


# ---------------------------------------------------------------- making


@dataclass(frozen=True)
class Corpus:
    """What was made."""

    source: Path
    target: Path
    facts: dict[str, Any]


def distil(translator: Translator, making: Making) -> Corpus:
    """The teacher's translations of the sources (Kim and Rush 2016); with references, those nearest to them."""
    source, target = named(making.folder, (translator.source_language, translator.target_language))
    return Corpus(source, target, make(translator, making, source, target))


def back_translate(translator: Translator, making: Making) -> Corpus:
    """Sources for target text (Sennrich et al. 2016): the model reads the target language and writes the source."""
    source, target = named(making.folder, (translator.target_language, translator.source_language))
    return Corpus(source, target, make(translator, making, target, source))


def named(folder: Path, languages: tuple[str, str]) -> tuple[Path, Path]:
    """The two files of the new corpus, named after their languages where the model knows them."""
    ends = languages if all(languages) and languages[0] != languages[1] else ("source", "target")
    return folder / f"train.{ends[0]}", folder / f"train.{ends[1]}"


def make(translator: Translator, making: Making, read: Path, written: Path) -> dict[str, Any]:
    """Copy, translate, choose: a file has its own name only when it is whole. The facts."""
    read_facts(making.folder)  # refuses a folder that is not ours before anything is written
    with disk_trouble(making.folder, 0):
        make_folder(making.folder)
    with Lock(making.folder / LOCK):
        facts = making.begin(f"{translator.engine.name} {translator.engine.precision}")
        if facts["complete"]:
            return facts
        if not read.exists():
            write_lines(read, lines_of(making.text))
        facts |= write(translator, making, read, written)
        empty = sum(not line.strip() for line in lines_of(written))
        facts |= {"lines": count_lines(read), "empty": empty, "complete": True}
        making.write_facts(facts)
        (making.folder / DRAFT).unlink(missing_ok=True)
        return facts


def write(translator: Translator, making: Making, read: Path, written: Path) -> dict[str, float]:
    """Translate what was read; of several candidates choose. Measures of the choice."""
    if written.exists() and making.reference is None:  # stopped just before the end
        return {}
    draft = making.folder / DRAFT
    translate_lines(translator, Files(read, draft, resume=True), making.decoding, OutputColumns(confidence=SURE))
    if making.reference is not None:
        return choose(draft, written, making.reference)
    put(draft, written)
    return {}


def lines_of(path: Path) -> Iterator[str]:
    return Files(path, None, resume=False).lines()


def write_lines(path: Path, lines: Iterable[str]) -> None:
    beside = path.with_name(path.name + UNFINISHED)
    try:
        with disk_trouble(path, 0), beside.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        put(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def put(beside: Path, path: Path) -> None:
    """Whole and durable, then under its own name."""
    with disk_trouble(path, 0):
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        rename(beside, path)
        sync_folder(path.parent)


# ---------------------------------------------------------------- choosing


def choose(candidates: Path, path: Path, reference: Path) -> dict[str, float]:
    """Of each sentence's candidates the one nearest to its reference, by chrF; means of the first and of the chosen."""
    firsts, bests = [], []

    def chosen() -> Iterator[str]:
        for texts, meant in zip(read_candidates(candidates), lines_of(reference), strict=True):
            scores = sentence_chrf(texts, [meant] * len(texts))
            best = max(range(len(texts)), key=lambda index: (bool(texts[index]), scores[index], -index))
            firsts.append(scores[0])
            bests.append(scores[best])
            yield texts[best]

    write_lines(path, chosen())
    return {"chrf_first": mean(firsts), "chrf_chosen": mean(bests)}


def read_candidates(path: Path) -> Iterator[list[str]]:
    """The texts of each line, best first, as `translate --n-best` writes them: number, text, score."""
    rows = (line.split("\t", 1) for line in lines_of(path))
    for _, group in groupby(rows, key=lambda row: row[0]):
        yield [rest.rsplit("\t", 1)[0] for _, rest in group]


def mean(values: list[float]) -> float:
    return round(sum(values) / max(1, len(values)), 2)
