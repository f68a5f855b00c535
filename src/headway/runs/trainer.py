"""A decided run from the first step to the model folder: train, log, publish."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import torch

from headway import config
from headway.runs.assemble import assemble
from headway.runs.decide import Candidate, Decided, decide
from headway.storage import files
from headway.storage.card import CardFacts, card
from headway.storage.folder import CONFIG, write_model
from headway.storage.publication import FACTS, place_of
from headway.storage.weights import weights_of
from headway.tasks.run import Run
from headway.training.events import Ended, Event, Noted, Planned, Replanned, Validated
from headway.training.log import Log
from headway.training.loop import train
from headway.training.pacing import NAME as BUDGET
from headway.training.ranks import Ranks
from headway.training.signals import StopRequest
from headway.training.tensorboard import board
from headway.version import versions


class Trainer:
    """One run in one folder. `events` trains and tells what happens."""

    def __init__(
        self,
        run: Run | Decided,
        folder: Path,
        device: torch.device,
        ranks: Ranks,
        command: str = "",
        restart: bool = False,
    ) -> None:
        self.folder, self.device, self.ranks, self.command = folder, device, ranks, command
        decided = decide([Candidate(run)], folder, device, ranks, restart) if isinstance(run, Run) else run
        self.run, self.task, self.plan, self.notes = decided.run, decided.task, decided.plan, list(decided.notes)
        self.pacer = decided.pacer
        self.job = assemble(decided.run, decided.task, folder, device, ranks, decided.pacer)
        if decided.before is not None:
            self.notes += self.job.resume(decided.before)

    # ------------------------------------------------------------ before

    def planned(self) -> Planned:
        """The plan as an event, with what is known of the data."""
        parameters = sum(p.numel() for p in self.job.model.parameters())
        facts = self.task.facts() | {
            "parameters": parameters,
            "device": str(self.device),
            "precision": self.run.training.precision,
            "tokens_per_batch": self.run.training.batch.tokens,
        }
        return Planned(self.job.progress.step, self.job.total, facts | self.plan.facts() | {"steps": self.job.total})

    @property
    def current(self) -> Run:
        """The run with the number of steps that holds now."""
        return replace(self.run, training=replace(self.run.training, steps=self.job.total))

    def begin(self) -> list[Event]:
        """Write down what was decided, before the first step: a run that is killed at once goes on as the same run."""
        state = self.folder / "state"
        if self.ranks.first and self.pacer.budget is not None:
            files.make_folder(state)
            self.pacer.budget.write(state)
        elif self.ranks.first:
            (state / BUDGET).unlink(missing_ok=True)
        self.write_config()
        step = self.job.progress.step
        return [self.planned(), *(Noted(step, note) for note in self.notes)]

    def write_config(self) -> None:
        """Write config.toml where it is not the same already."""
        path, text = self.folder / CONFIG, config.dump(self.current)
        if self.ranks.first and not (path.exists() and path.read_text(encoding="utf-8") == text):
            files.replace_text(path, text)

    # ------------------------------------------------------------ during

    def events(self, stop: StopRequest, notes: Iterable[str] = ()) -> Iterator[Event]:
        """Train. Every event is logged before it is shown; `notes` are logged with them."""
        first = [*self.begin(), *(Noted(self.job.progress.step, note) for note in notes)]
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
            if isinstance(event, Replanned):
                self.write_config()
            if isinstance(event, Ended):
                event = replace(event, scores=published_scores(self.folder))
            yield event

    # ------------------------------------------------------------ after

    def publish(self, validated: Validated) -> None:
        """Write the model folder: the averaged weights of this step."""
        write_model(
            self.folder,
            {name: tensor.cpu() for name, tensor in weights_of(self.job.mirror).items()},
            config.dump(self.current),
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


def published_scores(folder: Path) -> dict[str, float]:
    """Of the model that lies in the folder: the best one, which need not be the last."""
    try:
        return json.loads((place_of(folder) / FACTS).read_bytes())["scores"]
    except (OSError, ValueError, KeyError):
        return {}
