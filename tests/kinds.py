"""Tiny runs of every task whose steps can be recorded: seconds each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import annotations
from headway import config
from headway.runs.trainer import Trainer
from headway.tasks.run import Run
from headway.training.ranks import Ranks

TRAINING: dict[str, Any] = {
    "steps": 8, "batch": {"tokens": 96, "shapes": "bounded"}, "precision": "fp32", "learning_rate": 3e-3,
    "schedule": {"kind": "constant"}, "averaging": {"kind": "none"}, "log_every": 2, "validate_every": 8,
}  # fmt: skip
MODEL: dict[str, Any] = {
    "width": 16, "heads": 2, "feed_forward": {"kind": "relu", "width": 32}, "dropout": 0.1, "attention_dropout": 0.1
}  # fmt: skip
LETTERS = "abcdefghijklm"
Written = dict[str, str]  # which file is what


def write_text(folder: Path) -> Written:
    path = folder / "text.txt"
    path.write_text("".join(f"{LETTERS[i % 5 : i % 9 + 4]}\n" for i in range(90)), encoding="utf-8")
    return {"train": str(path)}


def write_pairs(folder: Path) -> Written:
    texts = [" ".join(LETTERS[i % 5 : i % 9 + 4]) for i in range(90)]
    for end, step in (("a", 1), ("b", -1)):
        (folder / f"text.{end}").write_text("".join(f"{text[::step]}\n" for text in texts), encoding="utf-8")
    return {"source": str(folder / "text.a"), "target": str(folder / "text.b")}


def twice(table: dict[str, Any], weight: float) -> dict[str, Any]:
    """The same run with R-Drop."""
    return {**table, "training": {"r_drop": weight}}


def language_model(task: dict[str, Any] | None = None, **model: Any) -> dict[str, Any]:
    made = {**MODEL, "kind": "language_model", "layers": 2, "residual": {"kind": "pre"}, **model}
    task = {"kind": "language_model", "segment": 12, **(task or {})}
    return {"task": task, "text": {"kind": "characters"}, "model": made}


def reader(task: dict[str, Any], text: str = "words", **model: Any) -> dict[str, Any]:
    made = {**MODEL, "kind": "encoder", "layers": 1, "scale_embedding": False, **model}
    return {"task": task, "text": {"kind": text}, "model": made}


def translator(**task: Any) -> dict[str, Any]:
    made = {**MODEL, "encoder_layers": 1, "decoder_layers": 1}
    return {"task": {"kind": "translation", **task}, "text": {"kind": "words"}, "model": made}


def small(write: Callable[[Path, int], Path]) -> Callable[[Path], Written]:
    return lambda folder: {"train": str(write(folder, 80))}


TENER = {"positions": {"kind": "tener"}, "attention": {"kind": "fused", "scaled": False}}
CNN, SPELLED = {"kind": "cnn", "width": 8}, {"kind": "transformer", "width": 8, "heads": 2}
KINDS: dict[str, tuple[Callable[[Path], Written], dict[str, Any]]] = {
    "translation": (write_pairs, translator()),
    "R-Drop": (write_pairs, twice(translator(), 5.0)),
    "learned": (write_text, language_model(positions={"kind": "learned"})),
    "rotary": (write_text, language_model(positions={"kind": "rotary"}, norm={"kind": "rms"})),
    "batch norm": (write_text, language_model(positions={"kind": "bucketed"}, norm={"kind": "batch"})),
    "relative": (write_text, language_model(positions={"kind": "transformer_xl"})),
    "memory": (write_text, language_model(positions={"kind": "transformer_xl"}, memory=16)),
    "forgetful": (
        write_text,
        language_model(
            {"memory_dropout": 0.5, "interleaved_batches": 2}, positions={"kind": "transformer_xl"}, memory=16
        ),
    ),
    "two passes": (
        write_text,
        twice(language_model(positions={"kind": "transformer_xl"}, memory=16), 1.0),
    ),
    "crf": (small(annotations.write_tagged), reader({"kind": "tagging", "letters": CNN}, **TENER)),
    "softmax": (
        small(annotations.write_tagged),
        reader({"kind": "tagging", "head": {"kind": "softmax"}}, "characters"),
    ),
    "tags agree": (small(annotations.write_tagged), twice(reader({"kind": "tagging"}, **TENER), 2.0)),
    "spelled": (small(annotations.write_tagged), reader({"kind": "tagging", "letters": SPELLED}, **TENER)),
    "mean": (small(annotations.write_texts), reader({"kind": "classification"})),
    "pairs": (small(annotations.write_texts), twice(reader({"kind": "classification"}, bigram_buckets=64), 1.0)),
    "class token": (
        small(annotations.write_texts),
        reader({"kind": "classification", "pooling": {"kind": "class_token"}}),
    ),
    "many": (
        lambda folder: {"train": str(annotations.write_many(folder))},
        reader({"kind": "classification", "multi_label": True, "pooling": {"kind": "attention"}}),
    ),
}


def trainer(folder: Path, out: str, kind: str, device: str = "cpu", **training: Any) -> Trainer:
    write, table = KINDS[kind]
    whole = {**table, "data": write(folder), "training": {**TRAINING, **table.get("training", {}), **training}}
    return Trainer(config.from_dict(Run, whole), folder / out, torch.device(device), Ranks())


def certain(trainer: Trainer) -> Trainer:
    """The same without dropout of any kind."""
    for module in trainer.job.engine.loss.modules():
        for name in ("share", "dropout", "word_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return trainer
