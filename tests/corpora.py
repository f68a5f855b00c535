"""Small parallel corpora and tiny runs on them: seconds each."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from headway import config
from headway.data.order import Cursor
from headway.runs.resume import flat
from headway.runs.trainer import Trainer
from headway.tasks.run import Run
from headway.training.checkpoint import Checkpoints
from headway.training.events import Event
from headway.training.plan import merge
from headway.training.ranks import Ranks
from headway.training.signals import StopRequest

__all__ = ["flat"]  # used by tests through this module
START = Cursor()
SYLLABLES = ["ba", "ter", "lich", "en", "ver", "mi", "ung", "ze", "ga", "o", "er", "nk"]
WORDS = ["".join(random.Random(i).choices(SYLLABLES, k=1 + i % 3)) for i in range(120)]

TINY: dict[str, Any] = {
    "text": {"kind": "subword", "size": 320, "sampling": 0.0},
    "model": {
        "kind": "encoder_decoder",
        "width": 32,
        "heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "feed_forward": {"kind": "relu", "width": 64},
        "dropout": 0.1,
    },
    "training": {
        "steps": 24,
        "batch": {"tokens": 256},
        "precision": "fp32",
        "learning_rate": 5e-3,
        "schedule": {"kind": "inverse_root", "warmup": 8},
        "averaging": {"kind": "tail", "share": 0.5, "every": 2},
        "log_every": 4,
        "validate_every": 8,
        "checkpoint_every": 3,
        "validation_sentences": 4,
    },
}


def sentence(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(2, 9)))


def write(folder: Path, pairs: int = 300, seed: int = 0, name: str = "corpus") -> dict[str, str]:
    """Two files: sentences, and their words backwards. As the `data` of a run."""
    dice = random.Random(seed)
    sources = [sentence(dice) for _ in range(pairs)]
    targets = [" ".join(reversed(line.split())) for line in sources]
    for suffix, lines in (("a", sources), ("b", targets)):
        (folder / f"{name}.{suffix}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {"source": str(folder / f"{name}.a"), "target": str(folder / f"{name}.b")}


def table(folder: Path, *changes: Mapping[str, Any]) -> dict[str, Any]:
    """A tiny run on a new corpus in the folder, changed as told."""
    whole: dict[str, Any] = {"data": write(folder), **TINY}
    for change in changes:
        whole = merge(whole, dict(change))
    return whole


def write_config(folder: Path, *changes: Mapping[str, Any]) -> Path:
    """The same as a file for `headway train`."""
    path = folder / "run.toml"
    path.write_text(config.dump(config.from_dict(Run, table(folder, *changes))), encoding="utf-8")
    return path


def trainer(folder: Path, *changes: Mapping[str, Any]) -> Trainer:
    run = config.from_dict(Run, table(folder, *changes))
    return Trainer(run, folder / "model", torch.device("cpu"), Ranks())


def train(folder: Path, *changes: Mapping[str, Any]) -> list[Event]:
    """Train here and now; all that happened."""
    return list(trainer(folder, *changes).events(StopRequest()))


# ---------------------------------------------------------------- what a run left


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for line in lines if (event := json.loads(line))["event"] == kind]


def numbers(folder: Path) -> list[dict[str, Any]]:
    """Every loss, rate, gradient and score of the log; not the times, which differ."""
    clocks = {"time", "tokens_per_second", "seconds"}
    return [
        {key: value for key, value in event.items() if key not in clocks}
        for kind in ("step", "validate")
        for event in events(folder, kind)
    ]


def fingerprint(path: Path) -> str:
    """sha256 of all tensors of a safetensors file."""
    digest = hashlib.sha256()
    for name, tensor in sorted(safetensors.torch.load_file(path).items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def outcome(folder: Path) -> tuple[str, list[dict[str, Any]], list[tuple[str, str]]]:
    """What must be the same bit for bit: published weights, the log, and the whole state at the end."""
    last = Checkpoints(folder / "state").newest()  # as a resume finds it: a kill may have left no `latest`
    assert last is not None
    state = [(path.name, fingerprint(path)) for path in sorted(last.path.glob("*.safetensors"))]
    return fingerprint(folder / "model.safetensors"), numbers(folder), state


def checkpoints(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1].split(".")[0]) for path in (folder / "state").glob("step-????????*"))


def unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if ".tmp-" in path.name]


def covered(steps: Iterable[Mapping[str, Any]], every: int, total: int) -> None:
    """No line is missing, none is there twice."""
    assert [event["step"] for event in steps] == [*range(every, total, every), total]
