"""The numbers of every step, collected without waiting for the device, and read when a line is due."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import Tensor

from headway.training.divergence import Diverging
from headway.training.events import Stepped
from headway.training.job import Job
from headway.training.task import Batch


class Meter:
    """Steps that are not read yet wait on the device; what was read since the last line is part of a checkpoint.

    So a run that was stopped anywhere writes the same lines as one that never stopped.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.waiting: list[Tensor] = []
        self.places: list[list[Any]] = []  # which examples, for each step that waits
        self.begun = 0.0
        self.seconds = 0.0  # of the steps since the last line

    # ------------------------------------------------------------ time

    def start(self) -> None:
        self.begun = time.monotonic()

    def stop(self) -> None:
        """Validating and saving are not training: the clock stands still meanwhile."""
        took = time.monotonic() - self.begun
        self.begun += took
        self.seconds += took
        self.job.progress.seconds += took

    # ------------------------------------------------------------ numbers

    def add(self, numbers: Tensor, batches: list[Batch]) -> None:
        self.waiting.append(numbers)
        self.places.append([batch.indices for batch in batches])

    def look(self) -> None:
        """Wait for the device; raise if the run has left its range, naming the lines."""
        if not self.waiting:
            return
        progress, world = self.job.progress, self.job.ranks.world
        table = self.job.ranks.add_up(torch.stack(self.waiting)).tolist()
        places, self.waiting, self.places = self.places, [], []
        for row, some in zip(table, places, strict=True):
            progress.rows.append(row)
            reason = progress.guard.see(row[0] / max(1.0, row[2]), row[4] >= world)
            if reason is not None:
                raise Diverging(f"{reason} ({self.lines(some)})")

    def lines(self, places: list[Any]) -> str:
        return "; ".join(self.job.task.where(indices) for indices in places)

    def read(self) -> Stepped:
        """The mean of all steps since the last line."""
        self.look()
        self.stop()
        progress, world = self.job.progress, self.job.ranks.world
        good = [row for row in progress.rows if row[4] >= world and math.isfinite(row[0])]
        total, nll, tokens, norm = (math.fsum(column) for column in list(zip(*good, strict=True))[:4] or [()] * 4)
        seconds, skipped = max(1e-9, self.seconds), len(progress.rows) - len(good)
        progress.rows, self.seconds = [], 0.0
        return Stepped(
            step=progress.step,
            total=self.job.total,
            loss=total / tokens if good else math.nan,
            nll=nll / tokens if good else math.nan,
            lr=self.job.rate(progress.step),
            grad_norm=norm / len(good) / world if good else math.nan,
            tokens=int(tokens),
            tokens_per_second=round(tokens / seconds, 1),
            epoch=round(self.job.stream.passed(progress.cursor), 3),
            seconds=round(progress.seconds, 3),
            skipped=skipped,
        )
