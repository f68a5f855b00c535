"""Small corpora with labels, and tiny runs on them: seconds each."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from headway import config
from headway.runs.trainer import Trainer
from headway.tasks.run import Run
from headway.training.events import Validated
from headway.training.plan import merge
from headway.training.ranks import Ranks
from headway.training.signals import StopRequest

NAMES = ["Anna", "Bob", "Karl", "Mia", "Tom", "Lea"]
FILLERS = ["the", "dog", "sees", "a", "cat", "and", "runs", "home"]
TINY: dict[str, Any] = {
    "model": {
        "width": 32,
        "heads": 2,
        "layers": 1,
        "feed_forward": {"kind": "relu", "width": 64},
        "dropout": 0.1,
        "positions": {"kind": "tener"},
        "attention": {"kind": "fused", "scaled": False},
        "scale_embedding": False,
    },
    "training": {
        "steps": 24,
        "batch": {"tokens": 256},
        "precision": "fp32",
        "learning_rate": 1e-2,
        "schedule": {"kind": "inverse_root", "warmup": 8},
        "log_every": 4,
        "validate_every": 8,
        "checkpoint_every": 3,
    },
}


def tagged(dice: random.Random) -> tuple[list[str], list[str]]:
    """A name after "in" is a place, else a person: only the word before it tells. Some places have two words."""
    words: list[str] = []
    labels: list[str] = []
    for _ in range(dice.randint(2, 7)):
        kind = dice.choice(["PER", "LOC", "O", "O"])
        name = dice.choices(NAMES, k=dice.randint(1, 2) if kind == "LOC" else 1)
        if kind == "O":
            words, labels = [*words, dice.choice(FILLERS)], [*labels, "O"]
        else:
            lead = ["in"] if kind == "LOC" else ["by"]
            words += [*lead, *name]
            labels += ["O", f"B-{kind}", *[f"I-{kind}"] * (len(name) - 1)]
    return words, labels


def write_tagged(folder: Path, count: int = 300, seed: int = 0, name: str = "train.conll") -> Path:
    dice, path = random.Random(seed), folder / name
    blocks = [zip(*tagged(dice), strict=True) for _ in range(count)]
    path.write_text("\n".join("".join(f"{word} {label}\n" for word, label in one) for one in blocks), encoding="utf-8")
    return path


def write_texts(folder: Path, count: int = 400, seed: int = 0, name: str = "train.tsv") -> Path:
    """`good` before `bad` is good: only the order tells."""
    dice, path = random.Random(seed), folder / name
    lines = []
    for _ in range(count):
        words = dice.choices(FILLERS, k=dice.randint(1, 4))
        places = sorted(dice.sample(range(len(words) + 2), 2))
        pair = dice.sample(["good", "bad"], 2)
        for place, word in zip(places, pair, strict=True):
            words.insert(place, word)
        lines.append(f"{' '.join(words)}\t{'up' if pair[0] == 'good' else 'down'}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_many(folder: Path, count: int = 300, seed: int = 0, name: str = "train.jsonl") -> Path:
    """A text has the labels of all names in it."""
    dice, path = random.Random(seed), folder / name
    rows = [dice.choices([*NAMES[:3], *FILLERS], k=dice.randint(2, 6)) for _ in range(count)]
    tables = ({"text": " ".join(words), "label": sorted(set(words) & set(NAMES))} for words in rows)
    path.write_text("".join(json.dumps(table) + "\n" for table in tables), encoding="utf-8")
    return path


def table(task: dict[str, Any], train: Path, *changes: Mapping[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {"task": task, "data": {"train": str(train)}, **TINY}
    for change in changes:
        whole = merge(whole, dict(change))
    return whole


def write_config(folder: Path, whole: dict[str, Any]) -> Path:
    path = folder / "run.toml"
    path.write_text(config.dump(config.from_dict(Run, whole)), encoding="utf-8")
    return path


def trainer(folder: Path, whole: dict[str, Any]) -> Trainer:
    return Trainer(config.from_dict(Run, whole), folder, torch.device("cpu"), Ranks())


def train(folder: Path, whole: dict[str, Any]) -> dict[str, float]:
    """Train here and now; the scores of the last validation."""
    events = list(trainer(folder, whole).events(StopRequest()))
    return [event for event in events if isinstance(event, Validated)][-1].scores
