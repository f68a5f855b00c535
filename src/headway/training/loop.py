"""Training: batches -> loss -> update -> validate -> save. Yields events, prints nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from headway.data.prefetch import Prefetch
from headway.errors import DivergedError
from headway.training.task import Batch, Validation
from headway.training.engine import seed_of
from headway.training.events import Ended, Event, Noted, Saved, Stepped, Validated
from headway.training.guard import Guard
from headway.training.job import Job
from headway.training.signals import StopRequest
from headway.training.weights import load_weights

AHEAD = 4  # batches made in the background


class Diverging(Exception):
    """The numbers left their range; the loop goes back to the last checkpoint."""


def train(job: Job, stop: StopRequest) -> Iterator[Event]:
    """Train to the last step; after a divergence go back once with half the rate, then give up."""
    while True:
        try:
            yield from attempt(job, stop)
            return
        except Diverging as reason:
            yield go_back(job, str(reason))


def attempt(job: Job, stop: StopRequest) -> Iterator[Event]:
    """The training algorithm, from the step the job stands at."""
    settings, progress, device = job.settings, job.progress, job.engine.device
    stream = job.task.stream(job.ranks.rank, job.ranks.world)
    meter = Meter(job, stream.count(0))
    with Prefetch(stream.iterate(progress.cursor), AHEAD, pin=device.type == "cuda") as batches:
        while progress.step < job.total:
            begun = time.monotonic()
            some = [next(batches) for _ in range(settings.accumulate)]
            progress.step += 1
            tokens = job.ranks.sum(sum(batch.tokens for batch in some), device)
            on_device = [batch.to(device, non_blocking=True) for batch in some]
            seed = seed_of(job.seed, progress.step, job.ranks.rank)
            numbers = job.engine.step(on_device, seed, job.rate(progress.step), tokens / job.ranks.world)
            job.average.update(progress.step, job.total, job.weights)
            progress.cursor = some[-1].cursor
            meter.add(progress.step, numbers, some)
            stopping = job.ranks.any(bool(stop), device)
            if meter.due(stopping):
                yield meter.read()
            progress.seconds += time.monotonic() - begun
            if due(progress.step, settings.validate_every, job.total):
                yield validate(job)
            if stopping or due(progress.step, settings.checkpoint_every, job.total):
                yield from save(job)
            if stopping or out_of_patience(job):
                break
    yield end(job, stop)


def due(step: int, every: int | None, total: int) -> bool:
    return step == total or (every is not None and step % every == 0)


def validate(job: Job) -> Event:
    """Measure the weights that would be published now."""
    progress, kept = job.progress, {name: tensor.clone() for name, tensor in job.weights().items()}
    load_weights(job.model, job.published())
    job.model.eval()
    result = job.task.validate(job.model, job.engine.device) if job.ranks.first else Validation({"loss": 0.0})
    job.ranks.wait()
    job.model.train()
    load_weights(job.model, kept)
    score = watched(result.scores, job.settings.watch)
    score = job.ranks.sum(score if job.ranks.first else 0.0, job.engine.device)
    better = progress.best is None or score > progress.best
    progress.best, progress.stale = (score, 0) if better else (progress.best, progress.stale + 1)
    return Validated(progress.step, result.scores, result.sample, better)


def watched(scores: dict[str, float], watch: str) -> float:
    """Higher is better."""
    return scores[watch] if watch in scores and watch != "loss" else -scores["loss"]


def out_of_patience(job: Job) -> bool:
    patience = job.settings.patience
    return patience is not None and job.progress.stale >= patience


def save(job: Job) -> Iterator[Event]:
    progress = job.progress
    if job.ranks.first:
        score = progress.best if progress.stale == 0 else None
        path = job.saver.save(progress.step, job.tensors(), job.facts(), score)
        for text in drain(job.saver.checkpoints.notes):
            yield Noted(progress.step, text)
        if path is not None:
            yield Saved(progress.step, str(path))
    job.ranks.wait()


def drain(notes: list[str]) -> list[str]:
    taken, notes[:] = list(notes), []
    return taken


def end(job: Job, stop: StopRequest) -> Event:
    if stop:
        return Ended(job.progress.step, stop.name, exit_code=stop.exit_code)
    reason = "done" if job.progress.step >= job.total else "patience"
    return Ended(job.progress.step, reason)


def go_back(job: Job, reason: str) -> Event:
    """Take up the last checkpoint with half the rate, once."""
    before = job.saver.checkpoints.newest()
    if before is None or job.progress.rate_factor < 1.0:
        raise DivergedError(f"training diverged at step {job.progress.step}: {reason}; try a lower learning_rate")
    job.restore(before)
    job.progress.rate_factor = 0.5
    return Noted(before.step, f"{reason}; back to step {before.step} with half the learning rate")


class Meter:
    """Collects the numbers of steps without waiting for the device, and reads them when a line is due."""

    def __init__(self, job: Job, batches_per_epoch: int) -> None:
        self.job, self.guard = job, Guard()
        self.per_epoch = max(1, batches_per_epoch)
        self.waiting: list[tuple[int, Tensor, list[Batch]]] = []
        self.begun, self.first = time.monotonic(), job.progress.step + 1

    def add(self, step: int, numbers: Tensor, batches: list[Batch]) -> None:
        self.waiting.append((step, numbers, batches))

    def due(self, stopping: bool) -> bool:
        step, settings = self.job.progress.step, self.job.settings
        boundary = due(step, settings.validate_every, self.job.total) or due(step, settings.checkpoint_every, 0)
        return stopping or boundary or step % settings.log_every == 0

    def read(self) -> Event:
        job, progress = self.job, self.job.progress
        table = job.ranks.add_up(torch.stack([numbers for _, numbers, _ in self.waiting])).cpu()
        seconds = max(1e-9, time.monotonic() - self.begun)
        skipped = self.look(table)
        finite = table[table[:, 4] >= job.ranks.world]
        total, nll, tokens = (float(x) for x in finite[:, :3].double().sum(dim=0)) if len(finite) else (0.0, 0.0, 1.0)
        self.waiting.clear()
        self.begun = time.monotonic()
        return Stepped(
            step=progress.step,
            total=job.total,
            loss=total / max(1.0, tokens),
            nll=nll / max(1.0, tokens),
            lr=job.rate(progress.step),
            grad_norm=float(finite[:, 3].mean()) / job.ranks.world if len(finite) else float("nan"),
            tokens=int(tokens),
            tokens_per_second=tokens / seconds,
            epoch=round(progress.cursor.epoch + min(1.0, self.share()), 3),
            seconds=round(progress.seconds, 3),
            skipped=skipped,
        )

    def share(self) -> float:
        return self.job.progress.cursor.batch / self.per_epoch

    def look(self, table: Tensor) -> int:
        """Count what was skipped; raise if the run has left its range, naming the lines."""
        before = self.guard.skipped
        for (_, _, batches), row in zip(self.waiting, table, strict=True):
            reason = self.guard.see(float(row[0] / row[2].clamp_min(1)), bool(row[4] >= self.job.ranks.world))
            if reason is not None:
                raise Diverging(f"{reason} ({self.lines(batches)})")
        return self.guard.skipped - before

    def lines(self, batches: list[Batch]) -> str:
        return "; ".join(self.job.task.where(batch.indices) for batch in batches)
