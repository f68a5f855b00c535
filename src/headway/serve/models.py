"""The models a server offers: a table made at start. A name in a request is looked up here and goes nowhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import UsageError

MODEL_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Pair:
    """One direction a model translates in."""

    source: str  # language code, as LibreTranslate writes it
    target: str
    model: str  # id
    to: str = ""  # the tag that asks a multilingual model for the target


@dataclass(frozen=True)
class Offered:
    """A loaded model."""

    id: str
    folder: Path
    pairs: tuple[Pair, ...]  # none where it does not translate
    task: str = "translation"
    labels: tuple[str, ...] = ()  # of a tagger or a classifier
    parameters: int = 0
    encoder_layers: int = 0
    decoder_layers: int = 0
    heads: int = 0
    width: int = 0
    vocabulary: tuple[int, ...] = ()
    engine: str = ""
    precision: str = ""
    fingerprint: str = ""  # hash of the model's files
    reason: str = ""  # why this engine runs, or why faster ones cannot


def model_ids(folders: Sequence[Path]) -> dict[str, Path]:
    """An id for each folder, made from its name."""
    table: dict[str, Path] = {}
    for folder in folders:
        name = re.sub(r"[^a-z0-9._-]+", "-", folder.resolve().name.lower()).strip("._-")[:64]
        name = name if MODEL_ID.fullmatch(name) else "model"
        if name in table:
            raise UsageError(f"{table[name]} and {folder} would both be called {name!r}; rename one of the folders")
        table[name] = folder
    return table


def offered(facts: dict[str, Any]) -> Offered:
    """From what a model process tells about a model it has loaded."""
    pairs = tuple(Pair(source, target, facts["id"], to) for source, target, to in facts["pairs"])
    lists = {"vocabulary": tuple(facts["vocabulary"]), "labels": tuple(facts.get("labels", ()))}
    return Offered(**{**facts, "folder": Path(facts["folder"]), "pairs": pairs, **lists})
