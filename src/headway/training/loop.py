"""Training: batches -> loss -> update -> validate -> save. Yields events, prints nothing."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from headway.data.prefetch import Prefetch
from headway.errors import STOPPED_BY_SIGTERM, DivergedError
from headway.storage.weights import load_weights
from headway.training.divergence import Diverging
from headway.training.engine import seed_of
from headway.training.events import Ended, Event, Noted, Previewed, Replanned, Saved, Validated
from headway.training.job import Job
from headway.training.meter import Meter
from headway.training.pacing import Decision
from headway.training.signals import StopRequest
from headway.training.task import Batch, Validation

AHEAD = 4  # batches made in the background


def train(job: Job, stop: StopRequest) -> Iterator[Event]:
    """Train to the last step; after a divergence go back once with half the rate, then give up."""
    if job.finished:
        yield Noted(job.progress.step, nothing_left(job))
    while True:
        try:
            yield from attempt(job, stop)
            break
        except Diverging as reason:
            yield from go_back(job, str(reason))
    if not job.finished and job.progress.best is None and job.progress.step and job.sound:
        yield preview(job)
    yield end(job, stop)


def attempt(job: Job, stop: StopRequest) -> Iterator[Event]:
    """The training algorithm, from the step the job stands at."""
    meter, on_cuda = Meter(job), job.engine.device.type == "cuda"
    job.pacer.start()
    if job.progress.step == 0:  # a disk that is too small should say so now, and not after an hour
        yield from save(job, meter)
    with Prefetch(job.stream.iterate(job.progress.cursor), AHEAD, pin=on_cuda) as batches:
        while not job.finished:
            meter.start()
            some = [next(batches) for _ in range(job.settings.accumulate)]
            tokens, stopping, *clocks = job.ranks.sum(sum(b.tokens for b in some), bool(stop), *by_the_clock(job))
            if stopping:
                break
            step(job, meter, some, tokens)
            yield from report(job, meter)
            yield from keep_time(job, meter, *map(bool, clocks))
        yield from save(job, meter)


def by_the_clock(job: Job) -> tuple[bool, bool, bool]:
    """What is due by the clock of the first process: a checkpoint, a first model, another number of steps."""
    return job.late, job.ranks.first and job.unpublished, job.ranks.first and job.pacer.due


def keep_time(job: Job, meter: Meter, late: bool, unpublished: bool, slow_or_fast: bool) -> Iterator[Event]:
    """Save, publish a first model and change the number of steps, where it is time for it."""
    if unpublished and job.progress.best is None and job.sound:
        yield preview(job)
    if late or due(job, job.settings.checkpoint_every):
        yield from save(job, meter, must=job.finished)
    job.pacer.lap()
    if not job.finished:
        yield from replan(job, slow_or_fast)


def replan(job: Job, review: bool) -> Iterator[Event]:
    """Change the number of steps so that the run ends in time, or as an earlier start of it decided at this step."""
    pacer, step, before = job.pacer, job.progress.step, job.total
    repeated = pacer.repeat(step)
    if repeated is not None:
        job.total = repeated
    elif review:
        fitting = pacer.review(step, job.total, job.settings.validate_every) if job.ranks.first else 0
        job.total = int(job.ranks.sum(fitting)[0])
    if job.total == before:
        return
    if repeated is None and pacer.budget is not None:
        pacer.budget = pacer.budget.decide(Decision(step, job.total))
        if job.ranks.first:
            pacer.budget.write(job.saver.checkpoints.folder)
    left = pacer.budget.seconds - pacer.spent if pacer.budget else 0.0
    yield Replanned(step, job.total, before, round(left, 1))


def step(job: Job, meter: Meter, batches: list[Batch], tokens: float) -> None:
    """One update. Nothing here waits for the device."""
    progress, device = job.progress, job.engine.device
    progress.step += 1
    on_device = [batch.to(device, non_blocking=True) for batch in batches]
    seed = seed_of(job.seed, progress.step, job.ranks.rank)
    numbers = job.engine.step(on_device, progress.step, seed, job.rate(progress.step), tokens / job.ranks.world)
    job.average.update(progress.step, job.total, job.weights)
    progress.cursor = batches[-1].cursor
    meter.add(numbers, batches)


def due(job: Job, every: int | None) -> bool:
    step = job.progress.step
    return step == job.total or (every is not None and step % every == 0)


def report(job: Job, meter: Meter) -> Iterator[Event]:
    if due(job, job.settings.log_every):
        yield meter.read()
        yield from out_of_memory(job)
    meter.stop()
    job.pacer.stepped()
    if due(job, job.settings.validate_every):
        event = validate(job)
        job.pacer.validated()
        yield event


def out_of_memory(job: Job) -> Iterator[Event]:
    splits, job.engine.splits = job.engine.splits, 0
    if splits:
        times = f"out of memory {splits} times since the last line; batches were cut in two"
        yield Noted(job.progress.step, f"{times}; a smaller training.batch.tokens is faster")


# ---------------------------------------------------------------- validation


def validate(job: Job) -> Event:
    """Measure the weights that would be published now."""
    progress, result = job.progress, measure(job)
    score = watched(result.scores, job.settings.best_metric, progress.step) if job.ranks.first else 0.0
    score = job.ranks.sum(score)[0]
    better = progress.best is None or score > progress.best
    progress.best, progress.stale = (score, 0) if better else (progress.best, progress.stale + 1)
    job.scored = (progress.step, score)
    return Validated(progress.step, result.scores, result.sample, better, result.facts, result.attention)


def measure(job: Job) -> Validation:
    """Validate the averaged weights on the first process. All processes ask at once."""
    weights = job.published()
    if not job.ranks.first:
        return Validation({})
    load_weights(job.mirror, weights)
    return job.task.validate(job.mirror, job.engine.device)


def preview(job: Job) -> Previewed:
    """The weights as they are now, measured. Training goes on as if this had not happened."""
    found, job.previewed = measure(job), True
    return Previewed(job.progress.step, found.scores, found.sample, True, found.facts, found.attention)


def watched(scores: dict[str, float], metric: str, step: int) -> float:
    """Higher is better. Without validation pairs the latest is the best."""
    if not scores:
        return float(step)
    score = scores[metric] if metric in scores and metric != "loss" else -scores["loss"]
    return score if math.isfinite(score) else -sys.float_info.max


# ---------------------------------------------------------------- saving and going back


def save(job: Job, meter: Meter, must: bool = True) -> Iterator[Event]:
    """Write a checkpoint, unless this very step has one. `must`: training cannot go on without it."""
    step, saver = job.progress.step, job.saver
    meter.look()
    if saver.saved_step == step:
        return
    if job.progress.guard.bad_in_a_row and not job.sound:
        raise Diverging("the weights themselves are not finite")
    tensors, path = job.tensors(), None
    if job.ranks.first:
        keep = saver.insist if must else saver.save
        path = keep(step, tensors, job.facts(), job.scored[1] if job.scored[0] == step else None)
        for text in drain(saver.checkpoints.notes):
            yield Noted(step, text)
    saver.mark(step, safe=any(job.ranks.sum(path is not None)))
    if path is not None:
        yield Saved(step, str(path))


def drain(notes: list[str]) -> list[str]:
    taken, notes[:] = list(notes), []
    return taken


def go_back(job: Job, reason: str) -> Iterator[Event]:
    """Take up the last checkpoint with half the rate, once. A slow way up holds the last ones: then the best."""
    at, kept = job.progress.step, job.saver.checkpoints
    before = (kept.best() if job.progress.guard.lost() else None) or kept.newest()
    if before is None or job.progress.rate_factor < 1.0:
        yield Ended(at, "diverged", {}, DivergedError.exit_code)
        left = f"step {before.step} is kept" if before else "nothing was saved yet"
        raise DivergedError(f"training diverged at step {at}: {reason}; {left}; try a lower training.learning_rate")
    job.restore(before)
    job.progress.rate_factor = 0.5
    job.progress.guard.losses = []  # they are of the way up
    yield Noted(before.step, f"{reason}; back to step {before.step} with half the learning rate")


def end(job: Job, stop: StopRequest) -> Ended:
    if job.finished:
        return Ended(job.progress.step, "patience" if job.out_of_patience else "done")
    return Ended(job.progress.step, stop.name or "stopped", exit_code=stop.exit_code or STOPPED_BY_SIGTERM)


def nothing_left(job: Job) -> str:
    stale = job.progress.stale
    if job.out_of_patience:
        done, more = f"{stale} validations brought no better score", f"--set training.patience={2 * stale}"
    elif job.pacer.budget is not None:
        minutes = job.pacer.budget.seconds / 60
        done = f"the budget of {minutes:g} minutes is used up, with {job.progress.step} steps"
        more = f"--minutes {2 * minutes:g}"
    else:
        done, more = f"all {job.total} steps are done", f"--steps {2 * job.total}"
    return f"nothing is left to do: {done}; to go on, give more, for example {more}"
