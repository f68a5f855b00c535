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
from headway.training.objectives import BatchLoss
from headway.training.optimiser import Update
from headway.training.pacing import Pacer
from headway.training.ranks import Ranks
from headway.training.recurrent_state import recurrent_state_of
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
    plain = BatchLoss(task.forward_pass(model), training.objective.build())
    loss = ranks.wrap(plain, device, training.fsdp)
    update = Update(
        training.optimiser.build(model, training.learning_rate), training.clip_norm, half=training.precision == "fp16"
    )
    if training.compile:
        loss = cast("nn.Module", torch.compile(loss, dynamic=False))
    alone = ranks.world == 1 and run.model.width <= CAPTURED_WIDTH
    kind = engine_kind(training, device) if plain.objective.capturable and alone else Engine
    engine = kind(loss, update, training.precision, device, recurrent_state_of(plain))
    checkpoints = Checkpoints(folder / "state", training.keep_last, training.keep_best, task.fingerprint)
    return Job(
        task, model, engine, training.averaging.build(), Saver(checkpoints), training, run.seed, training.steps or 0,
        run.model.width, ranks, task.stream(ranks.rank, ranks.world), pacer=pacer or Pacer(),
    )  # fmt: skip


def engine_kind(training: Training, device: torch.device) -> type[Engine]:
    """Captured graphs on a GPU, where the settings allow them."""
    captured = device.type == "cuda" and training.cuda_graphs and training.batch.shapes == "bounded"
    return CapturedEngine if captured and not training.compile else Engine
