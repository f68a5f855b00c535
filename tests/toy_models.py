"""A toy model of every task besides translation, trained for an instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

import labelled_corpora
from headway import config
from headway.runs.trainer import Trainer
from headway.tasks.run import Run
from headway.training.ranks import Ranks
from headway.training.signals import StopRequest

# Folders and a text for each; the writers read it in several segments.
TEXTS = {
    "tagger": "the dog sees by Anna in Karl Mia",
    "classifier": "the good dog and bad cat",
    "writer": "abcdefghijabcdefghijabcdefghij",
    "rememberer": "abcdefghijabcdefghijabcdefghij",
}
SHORT = {"training": {"steps": 6, "validate_every": 6, "checkpoint_every": 6}}
TWO_LAYERS = {"model": {"layers": 2}, "data": {"longest": 40}}
WRITER: dict[str, Any] = {
    "task": {"kind": "language_model", "segment": 12},
    "text": {"kind": "characters"},
    "model": {"kind": "language_model", "positions": {"kind": "rotary"}, "attention": {"kind": "fused"}},
}
MEMORY: dict[str, Any] = {"model": {"positions": {"kind": "transformer_xl"}, "memory": 8}}


def toy_folders(place: Path, names: Iterable[str] = tuple(TEXTS)) -> dict[str, Path]:
    """Seconds for all."""
    spelled = {"task": {"kind": "tagging", "letters": {"kind": "cnn", "width": 8}}}
    pooled = {"task": {"pooling": {"kind": "attention"}}, "text": {"kind": "words"}}
    text = place / "text.txt"
    text.write_text("abcdefghij" * 3 + "\n" + "cdefghijab\n" * 40, encoding="utf-8")
    runs: dict[str, tuple[dict[str, Any], Path, tuple[Mapping[str, Any], ...]]] = {
        "tagger": ({"kind": "tagging"}, labelled_corpora.write_tagged(place), (spelled,)),
        "classifier": ({"kind": "classification"}, labelled_corpora.write_texts(place), (pooled,)),
        "writer": ({}, text, (WRITER,)),
        "rememberer": ({}, text, (WRITER, MEMORY)),
    }
    return {
        name: trained(place / name, labelled_corpora.table(task, file, *changes, TWO_LAYERS, SHORT))
        for name, (task, file, changes) in runs.items()
        if name in names
    }


def trained(folder: Path, whole: dict[str, Any]) -> Path:
    run = config.from_dict(Run, whole)
    list(Trainer(run, folder, torch.device("cpu"), Ranks()).events(StopRequest()))
    return folder
