"""A run from files to folder: prepare, rehearse, train, publish."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from headway import config
from headway.devices import half_is_fast
from headway.errors import UsageError
from headway.storage import files
from headway.storage.card import CardFacts, card
from headway.storage.folder import CONFIG, write_model
from headway.storage.publication import FACTS, place_of
from headway.storage.weights import weights_of
from headway.tasks.run import Run
from headway.training import schedules
from headway.training.checkpoint import Checkpoints
from headway.training.engine import CapturedEngine, Engine, seed_of
from headway.training.events import Ended, Event, Noted, Planned, Validated
from headway.training.job import Job
from headway.training.log import Log
from headway.training.loop import drain, train
from headway.training.objectives import BatchLoss
from headway.training.optimiser import Update
from headway.training.ranks import Ranks
from headway.training.recurrent_state import recurrent_state_of
from headway.training.saver import Saver
from headway.training.settings import Training
from headway.training.signals import StopRequest
from headway.training.tensorboard import board
from headway.training.timing import Pace, rehearse
from headway.version import versions

SHARE_OF_CLOCK = 0.92  # of the minutes given; the rest is for saving and for noise
VALIDATIONS = 20  # in a run
SHARE_OF_VALIDATION = 0.15  # of the minutes given, at most
CAPTURED_WIDTH = 512  # wider models keep a GPU busy without captured graphs


class Trainer:
    """One run in one folder. `events` trains and tells what happens."""

    def __init__(
        self, run: Run, folder: Path, device: torch.device, ranks: Ranks, command: str = "", restart: bool = False
    ) -> None:
        self.folder, self.device, self.ranks, self.command, self.restart = folder, device, ranks, command, restart
        setup = run.setup(folder)
        self.task, self.notes = ranks.in_turn(lambda: run.task.prepare(setup)), setup.notes
        check_best_metric(run.training.best_metric, self.task.measured)
        self.run = replace(run, training=settled(run.training, device))
        self.job = self.assemble()
        self.seconds_per_step = 0.0

    # ------------------------------------------------------------ before

    def assemble(self) -> Job:
        """Model, engine and all: every rank begins with the same weights."""
        training = self.run.training
        if self.device.type == "cuda":
            torch.use_deterministic_algorithms(training.deterministic, warn_only=True)
        torch.manual_seed(seed_of(self.run.seed, 0))
        model = self.task.build().to(self.device).train()
        plain = BatchLoss(self.task.forward_pass(model), training.objective.build())
        loss = self.ranks.wrap(plain, self.device, training.fsdp)
        update = Update(
            training.optimiser.build(model, training.learning_rate),
            training.clip_norm,
            half=training.precision == "fp16",
        )
        if training.compile:
            loss = cast("nn.Module", torch.compile(loss, dynamic=False))
        kind = self.engine_kind(plain.objective.capturable)
        engine = kind(loss, update, training.precision, self.device, recurrent_state_of(plain))
        state = self.folder / "state"
        checkpoints = Checkpoints(state, training.keep_last, training.keep_best, self.task.fingerprint)
        return Job(
            self.task, model, engine, training.averaging.build(), Saver(checkpoints), training, self.run.seed, 0,
            self.run.model.width, self.ranks, self.task.stream(self.ranks.rank, self.ranks.world),
        )  # fmt: skip

    def engine_kind(self, capturable: bool) -> type[Engine]:
        """Captured graphs for small models on one GPU, where the objective never waits for the device."""
        training, narrow = self.run.training, self.run.model.width <= CAPTURED_WIDTH
        captured = self.device.type == "cuda" and training.cuda_graphs and training.batch.shapes == "bounded"
        alone = self.ranks.world == 1 and not training.compile
        return CapturedEngine if capturable and captured and narrow and alone else Engine

    def plan(self) -> Iterator[Event]:
        """Take up the newest checkpoint, if there is one, and decide how long to train."""
        job, before = self.job, self.job.saver.checkpoints.newest()
        notes = [*self.notes, *drain(job.saver.checkpoints.notes)]
        if before is None:
            self.check_beginning(notes)
        else:
            self.check(before.configuration)
            job.restore(before)
            notes += [note] if (note := job.changes(before)) else []
        self.run = replace(self.run, training=self.decided(self.run.training))
        job.settings, job.total = self.run.training, self.run.training.steps or 0
        self.write_config()
        yield Planned(job.progress.step, job.total, self.facts())
        yield from (Noted(job.progress.step, note) for note in notes)

    def check_beginning(self, notes: list[str]) -> None:
        """Hours of training must not be lost unasked: without checkpoints, a run that has begun stays as it is."""
        damaged = self.job.saver.checkpoints.listed()
        if self.restart or not (damaged or (self.folder / FACTS).exists()):
            return
        found = "; ".join(notes) if damaged else f"{self.folder / 'state'} holds none"
        raise UsageError(
            f"{self.folder}: no checkpoint can be read ({found}); put back a copy of the checkpoints, give another "
            "--out, or give --restart to begin again at step 0 and replace the published model"
        )

    def check(self, configuration: str) -> None:
        if configuration != self.job.saver.checkpoints.configuration:
            raise UsageError(
                f"{self.folder} holds a run on other training text, or in another order: the files or the version of "
                "headway have changed since it began; put them back, or give another --out"
            )

    def decided(self, training: Training) -> Training:
        """A budget that repeats: steps, not epochs or minutes."""
        steps = self.in_epochs(training.epochs) if training.epochs is not None else training.steps
        if steps is None:
            steps, most = self.in_minutes(training.minutes or 1.0)
        else:
            most = max(1, min(VALIDATIONS, steps // training.log_every))  # a few steps are no reason to measure
        every = training.validate_every or max(1, steps // most)
        schedule = schedules.settled(training.schedule, steps)
        return replace(training, steps=steps, epochs=None, minutes=None, validate_every=every, schedule=schedule)

    def in_epochs(self, epochs: float) -> int:
        per_step = self.run.training.accumulate * self.ranks.world
        return max(1, round(epochs * self.job.stream.count(0) / per_step))

    def in_minutes(self, minutes: float) -> tuple[int, int]:
        """How many steps, and how many validations, fit into this time."""
        progress, clock = self.job.progress, minutes * 60 * SHARE_OF_CLOCK
        pace = Pace(progress.seconds / progress.step, 0.0) if progress.step else rehearse(self.job)
        most = max(1, min(VALIDATIONS, int(SHARE_OF_VALIDATION * clock / max(pace.validation, 1e-9))))
        self.seconds_per_step = pace.step
        return max(1, int((clock - most * pace.validation) / pace.step)), most

    def facts(self) -> dict[str, Any]:
        parameters = sum(p.numel() for p in self.job.model.parameters())
        facts = self.task.facts() | {
            "parameters": parameters,
            "device": str(self.device),
            "precision": self.run.training.precision,
            "tokens_per_batch": self.run.training.batch.tokens,
            "steps": self.job.total,
        }
        return facts | ({"seconds_per_step": round(self.seconds_per_step, 4)} if self.seconds_per_step else {})

    def write_config(self) -> None:
        """Before the first step: a run that is killed at once begins again as the same run."""
        path, text = self.folder / CONFIG, config.dump(self.run)
        if self.ranks.first and not (path.exists() and path.read_text(encoding="utf-8") == text):
            files.replace_text(path, text)

    # ------------------------------------------------------------ during

    def events(self, stop: StopRequest, notes: Iterable[str] = ()) -> Iterator[Event]:
        """Train. Every event is logged before it is shown; `notes` are logged with them."""
        first = [*self.plan(), *(Noted(self.job.progress.step, note) for note in notes)]
        stop.begin()
        if not self.ranks.first:
            yield from train(self.job, stop)
            return
        drawn = board(self.folder, self.run.training.tensorboard)
        with self.job.saver.checkpoints, Log(self.folder, self.job.progress.step) as log, drawn:
            for event in chain(first, self.publishing(stop)):
                log.add(event)
                drawn.add(event)
                yield event

    def publishing(self, stop: StopRequest) -> Iterator[Event]:
        for event in train(self.job, stop):
            if isinstance(event, Validated) and event.best:
                self.publish(event)
            if isinstance(event, Ended):
                event = replace(event, scores=published_scores(self.folder))
            yield event

    # ------------------------------------------------------------ after

    def publish(self, validated: Validated) -> None:
        """Write the model folder: the averaged weights of this step."""
        write_model(
            self.folder,
            {name: tensor.cpu() for name, tensor in weights_of(self.job.mirror).items()},
            config.dump(self.run),
            {"task": self.run.task.kind, "step": validated.step, "scores": validated.scores, **validated.facts},
            self.task.save,
            card(self.card_facts(validated)),
        )

    def card_facts(self, validated: Validated) -> CardFacts:
        told = self.task.card(self.folder, validated.scores)
        parameters = sum(p.numel() for p in self.job.model.parameters())
        return replace(
            told,
            command=self.command,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            licence=self.run.licence or "unknown",
            sizes={"parameters": parameters, **told.sizes, "steps": validated.step},
            versions=versions(),
        )


def check_best_metric(metric: str, measured: tuple[str, ...]) -> None:
    known = ("loss", *measured)
    if metric not in known:
        raise UsageError(f"training.best_metric is {metric!r}; this task measures {', '.join(known)}")


def settled(training: Training, device: torch.device) -> Training:
    """What "auto" means on this machine."""
    precision = training.precision
    if precision == "auto":
        precision = "bf16" if half_is_fast(device) else "fp32"
    return replace(training, precision=precision)


def published_scores(folder: Path) -> dict[str, float]:
    """Of the model that lies in the folder: the best one, which need not be the last."""
    try:
        return json.loads((place_of(folder) / FACTS).read_bytes())["scores"]
    except (OSError, ValueError, KeyError):
        return {}
