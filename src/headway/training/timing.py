"""How long do a step and a validation take here? Tried out with a job that is thrown away."""

from __future__ import annotations

import time
from collections.abc import Callable

from headway.training.engine import seed_of
from headway.training.job import Job, Progress

STEPS = {"cpu": 5}
STEPS_ELSEWHERE = 40  # a GPU first records its graphs


def time_validation(job: Job, clock: Callable[[], float] = time.monotonic) -> float:
    """Seconds of one validation with untrained weights, which write longer outputs than trained ones."""
    begun = clock()
    if job.ranks.first:
        job.task.validate(job.model.eval(), job.engine.device)
        job.model.train()
    return job.ranks.sum(clock() - begun)[0]


def time_step(job: Job, limit: float = 60.0, clock: Callable[[], float] = time.monotonic) -> float:
    """Seconds of a usual step, the mean over all ranks: the first steps and the slowest are left out.

    After `limit` seconds no further step is tried.
    """
    device, took = job.engine.device, list[float]()
    stream = iter(job.stream.iterate(Progress().cursor))
    for step in range(STEPS.get(device.type, STEPS_ELSEWHERE)):
        batches = [next(stream) for _ in range(job.settings.accumulate)]
        begun = clock()
        tokens = float(batches[0].tokens)
        numbers = job.engine.step([b.to(device) for b in batches], step, seed_of(job.seed, step), 0.0, tokens)
        numbers.tolist()  # waits for the device
        took.append(clock() - begun)
        if len(took) > 1 and job.ranks.sum(sum(took))[0] > limit * job.ranks.world:
            break
    later = sorted(took[max(1, len(took) // 4) :])
    usual = later[: max(1, len(later) * 3 // 4)]
    return job.ranks.sum(sum(usual) / len(usual))[0] / job.ranks.world
