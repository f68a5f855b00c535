"""Build everything that a run needs to train: model, engine, averages, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import torch
from torch import nn

from headway.tasks.run import Run
from headway.training.checkpoint import Checkpoints
from headway.training.engine import CapturedEngine, Engine, seed_of
from headway.training.job import Job
from headway.training.optimiser import Update
from headway.training.pacing import Pacer
from headway.training.ranks import Ranks
from headway.training.recurrent_state import carried_by
from headway.training.saver import Saver
from headway.training.settings import Training
from headway.training.task import Task

CAPTURED_WIDTH = 512  # wider models keep a GPU busy without captured graphs


def assemble(run: Run, task: Task, folder: Path, device: torch.device, ranks: Ranks, pacer: Pacer | None = None) -> Job:
    """A job at step 0. Every rank begins with the same weights."""
    training = run.training
    if device.type == "cuda":
        torch.use_deterministic_algorithms(training.deterministic, warn_only=True)
    torch.manual_seed(seed_of(run.seed, 0))
    model = task.build().to(device).train()
    plain = task.objective(model)
    objective = ranks.wrap(plain, device, training.shard)
    update = Update(
        training.optimiser.build(model, training.learning_rate), training.clip, half=training.precision == "fp16"
    )
    if training.compile:
        objective = cast("nn.Module", torch.compile(objective, dynamic=False))
    kind = engine_kind(training, run.model.width, device, ranks)
    engine = kind(objective, update, training.precision, device, carried_by(plain))
    checkpoints = Checkpoints(folder / "state", training.keep_last, training.keep_best, task.fingerprint)
    return Job(
        task, model, engine, training.averaging.build(), Saver(checkpoints), training, run.seed, training.steps or 0,
        run.model.width, ranks, task.stream(ranks.rank, ranks.world), pacer=pacer or Pacer(),
    )  # fmt: skip


def engine_kind(training: Training, width: int, device: torch.device, ranks: Ranks) -> type[Engine]:
    captured = device.type == "cuda" and training.graphs and training.batch.shapes == "bounded"
    return (
        CapturedEngine if captured and width <= CAPTURED_WIDTH and ranks.world == 1 and not training.compile else Engine
    )
