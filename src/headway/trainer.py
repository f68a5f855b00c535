"""A run from files to folder: prepare, rehearse, train, publish."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import nn

from headway import config
from headway.card import CardFacts, DataFile, Score, card
from headway.folder import write_model
from headway.machine import half_is_fast
from headway.metrics import measure
from headway.run import Run
from headway.tasks.translation import TranslationTask
from headway.training.checkpoint import Checkpoints, hash_of
from headway.training.engine import CapturedEngine, Engine, seed_of
from headway.training.events import Ended, Event, Noted, Planned, Validated
from headway.training.job import Job, Progress
from headway.training.log import Log
from headway.training.loop import train
from headway.training.optimiser import Update
from headway.training.ranks import Ranks
from headway.training.saver import Saver
from headway.training.settings import Training
from headway.training.signals import StopRequest
from headway.training.weights import load_weights
from headway.version import versions

REHEARSALS = 4  # steps timed before a run
SHARE_OF_CLOCK = 0.92  # of the minutes given; the rest is for validation and saving
CAPTURED_WIDTH = 512  # wider models keep a GPU busy without captured graphs
CHECKPOINT_SECONDS = 300


class Trainer:
    """One run in one folder. `events` trains and tells what happens."""

    def __init__(self, run: Run, folder: Path, device: torch.device, ranks: Ranks, command: str = "") -> None:
        self.folder, self.device, self.ranks, self.command = folder, device, ranks, command
        self.task: TranslationTask = run.prepare(folder)
        self.run = replace(run, training=settled(run.training, device))
        self.job = self.assemble()
        self.seconds_per_step = 0.0

    # ------------------------------------------------------------ before

    def assemble(self) -> Job:
        """Model, engine and all: every rank begins with the same weights."""
        training = self.run.training
        torch.manual_seed(seed_of(self.run.seed, 0))
        model = self.task.build().to(self.device).train()
        optimiser = training.optimiser.build(model, training.learning_rate)
        update = Update(optimiser, training.clip, half=training.precision == "fp16")
        objective: nn.Module = self.ranks.wrap(self.task.objective(model), self.device)
        if training.compile:
            objective = torch.compile(objective, dynamic=False)  # pyright: ignore[reportAssignmentType]
        engine = self.engine_kind()(objective, update, training.precision, self.device)
        checkpoints = Checkpoints(
            self.folder / "state", training.keep_last, training.keep_best, hash_of(config.dump(self.run.model))
        )
        width = self.run.model.width
        return Job(
            self.task, model, engine, training.averaging.build(), Saver(checkpoints), training, self.run.seed, 0, width,
            self.ranks,
        )  # fmt: skip

    def engine_kind(self) -> type[Engine]:
        training, narrow = self.run.training, self.run.model.width <= CAPTURED_WIDTH
        captured = self.device.type == "cuda" and training.graphs and training.batch.shapes == "bounded"
        return CapturedEngine if captured and narrow and self.ranks.world == 1 and not training.compile else Engine

    def plan(self) -> Planned:
        """Take up the newest checkpoint, or rehearse and decide how long to train."""
        job = self.job
        before = job.saver.checkpoints.newest()
        if before is not None:
            job.restore(before)
            job.total = self.run.training.steps or int(before.facts["total"])
        else:
            job.total = self.decide_total()
            self.run = replace(self.run, training=with_steps(self.run.training, job.total, self.seconds_per_step))
            self.write_config()
        job.settings = self.run.training
        return Planned(job.progress.step, job.total, self.facts())

    def decide_total(self) -> int:
        training = self.run.training
        if training.steps is not None:
            return training.steps
        if training.epochs is not None:
            per_step = training.accumulate * self.ranks.world
            return max(1, round(training.epochs * self.task.stream(0, 1).count(0) / per_step))
        assert training.minutes is not None
        self.seconds_per_step = self.rehearse()
        clock = training.minutes * 60 * SHARE_OF_CLOCK
        return max(1, int(self.ranks.sum(clock / self.seconds_per_step, self.device) / self.ranks.world))

    def rehearse(self) -> float:
        """Time a few steps, then put everything back as it was."""
        job = self.job
        weights = {name: tensor.clone() for name, tensor in job.weights().items()}
        stream = self.task.stream(self.ranks.rank, self.ranks.world).iterate(Progress().cursor)
        steps = REHEARSALS if self.device.type == "cpu" else 40
        took = []
        for step in range(steps):
            some = [next(stream) for _ in range(job.settings.accumulate)]
            begun = time.monotonic()
            numbers = job.engine.step([b.to(self.device) for b in some], seed_of(job.seed, step), 0.0, some[0].tokens)
            numbers.tolist()
            took.append(time.monotonic() - begun)
        stream.close()  # pyright: ignore[reportAttributeAccessIssue]
        load_weights(job.model, weights)
        for held in job.engine.update.optimiser.state.values():
            for tensor in held.values():
                tensor.zero_()
        later = sorted(took[steps // 4 :])
        return sum(later[: max(1, len(later) * 3 // 4)]) / max(1, len(later) * 3 // 4)

    def facts(self) -> dict[str, object]:
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
        if self.ranks.first:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "config.toml").write_text(config.dump(self.run), encoding="utf-8")

    # ------------------------------------------------------------ during

    def events(self, stop: StopRequest) -> Iterator[Event]:
        """Train. Every event is logged before it is shown."""
        planned = self.plan()
        if not self.ranks.first:
            yield from train(self.job, stop)
            return
        with self.job.saver.checkpoints, Log(self.folder, self.job.progress.step) as log:
            for event in self.publishing(planned, stop):
                log.add(event)
                yield event

    def publishing(self, planned: Planned, stop: StopRequest) -> Iterator[Event]:
        yield planned
        for note in self.job.saver.checkpoints.notes:
            yield Noted(self.job.progress.step, note)
        self.job.saver.checkpoints.notes.clear()
        latest: Validated | None = None
        for event in train(self.job, stop):
            if isinstance(event, Validated):
                latest = event
                if event.best:
                    self.publish(event)
            if isinstance(event, Ended):
                event = replace(event, scores=latest.scores if latest else {})
            yield event

    # ------------------------------------------------------------ after

    def publish(self, validated: Validated) -> None:
        """Write the model folder: the averaged weights of this step."""
        write_model(
            self.folder,
            {name: tensor.cpu() for name, tensor in self.job.published().items()},
            config.dump(self.run),
            {"task": self.run.task.kind, "step": validated.step, "scores": validated.scores},
            self.task.save,
            card(self.card_facts(validated)),
        )

    def card_facts(self, validated: Validated) -> CardFacts:
        data, facts = self.run.data, self.task.facts()
        names = [c.source for c in data.training()]
        signatures = measure(["a"], ["a"], self.task.measures, data.target_language)
        scores = [
            Score(name, value, signatures[name].signature if name in signatures else "nats a token", "validation")
            for name, value in validated.scores.items()
        ]
        return CardFacts(
            name=self.folder.name,
            task=self.run.task.kind,
            command=self.command,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            languages=[code for code in (data.source_language, data.target_language) if code],
            licence=self.run.licence or "unknown",
            data=[
                DataFile("training", ", ".join(names), int(facts["pairs"])),
                DataFile("validation", data.dev_source or "held out", int(facts["validation"])),
            ],
            sizes={
                "parameters": sum(p.numel() for p in self.job.model.parameters()),
                "vocabulary": int(facts["vocabulary"][1]),
                "steps": validated.step,
            },
            scores=scores,
            versions=versions(),
            use=f"headway translate {self.folder} < in.txt > out.txt",
        )


def settled(training: Training, device: torch.device) -> Training:
    """What "auto" means on this machine."""
    precision = training.precision
    if precision == "auto":
        precision = "bf16" if half_is_fast(device) else "fp32"
    return replace(training, precision=precision)


def with_steps(training: Training, total: int, seconds_per_step: float) -> Training:
    """A budget that repeats: steps, not minutes. Validations about twenty times, checkpoints about every five minutes."""
    often = max(1, total // 20)
    by_clock = int(CHECKPOINT_SECONDS / seconds_per_step) if seconds_per_step else often
    return replace(
        training,
        steps=total,
        epochs=None,
        minutes=None,
        validate_every=training.validate_every or often,
        checkpoint_every=training.checkpoint_every or max(1, min(often, by_clock) if seconds_per_step else often),
    )
