"""How long do a step and a validation take here? Tried out before a run, without a trace."""

from __future__ import annotations

import time
from typing import NamedTuple

from headway.storage.weights import gathered, load_weights
from headway.training.engine import seed_of
from headway.training.job import Job, Progress
from headway.training.optimiser import forget_moments
from headway.training.recurrent_state import preserved

STEPS = {"cpu": 4}
STEPS_ELSEWHERE = 40  # a GPU first records its graphs


class Pace(NamedTuple):
    """Seconds, the mean over all ranks."""

    step: float
    validation: float


def rehearse(job: Job) -> Pace:
    """Time a few steps and a validation, then put everything back as it was."""
    update = job.engine.update
    weights = {name: tensor.clone() for name, tensor in job.weights().items()}
    state = {name: tensor.clone() for name, tensor in update.state().items()}
    with preserved(job.engine.recurrent_state):
        step = time_steps(job)
    load_weights(job.model, weights)
    update.restore(state)
    forget_moments(update.optimiser)
    begun, whole = time.monotonic(), gathered(weights)
    if job.ranks.first:
        load_weights(job.mirror, whole)
        job.task.validate(job.mirror, job.engine.device)
    totals = job.ranks.sum(step, time.monotonic() - begun)
    return Pace(totals[0] / job.ranks.world, totals[1])


def time_steps(job: Job) -> float:
    """The usual time of one: the first steps and the slowest are left out."""
    device, took = job.engine.device, list[float]()
    stream = iter(job.stream.iterate(Progress().cursor))
    for step in range(STEPS.get(device.type, STEPS_ELSEWHERE)):
        batches = [next(stream) for _ in range(job.settings.accumulate)]
        begun = time.monotonic()
        tokens = float(batches[0].tokens)
        numbers = job.engine.step([b.to(device) for b in batches], step, seed_of(job.seed, step), 0.0, tokens)
        numbers.tolist()  # waits for the device
        took.append(time.monotonic() - begun)
    later = sorted(took[len(took) // 4 :])
    usual = later[: max(1, len(later) * 3 // 4)]
    return sum(usual) / len(usual)
