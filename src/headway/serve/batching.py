"""What waits for a model: texts of all requests, in one queue that is bounded by work, taken in batches.

Nothing is held back to make a batch larger: whoever is free takes what is there. While a batch is worked on others
gather, so batches grow with the load by themselves.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headway.serve.channel import Message
from headway.serve.problems import Problem
from headway.serve.settings import Limits

BYTES_A_PIECE = 3  # of UTF-8: a cautious guess, also for scripts whose characters take three
BATCH_PIECES = 1500  # of one batch
BATCH_TEXTS = 64
TRIES = 3  # a text is given up when so many processes died over it; the last time it is alone
UNMEASURED = 20_000.0  # work that may wait while the speed is not known
FORGET = 0.9  # how much an earlier batch counts for the speed, from one batch to the next


def pieces(text: str) -> int:
    """A guess, without the tokeniser."""
    return 2 + len(text.encode("utf-8", "replace")) // BYTES_A_PIECE


EventHandler = Callable[[Message], None]


def ignore_event(event: Message) -> None:  # noqa: ARG001
    """For those who only wait for the end."""


@dataclass(frozen=True)
class Kind:
    """Texts of one kind can share a batch."""

    act: str
    model: str
    manner: str = "{}"  # JSON
    weight: int = 1  # what a piece costs: the beam, or more
    serial: int = 0  # where it is not 0, nothing else is of this kind


@dataclass(eq=False)
class Job:
    """What one request wants; its texts may be answered in several batches."""

    kind: Kind
    texts: list[str]
    answers: asyncio.Future[list[Any]]
    more: Message = field(default_factory=dict)  # goes with the message
    heard: EventHandler = ignore_event  # told what happens on the way
    places: deque[int] = field(init=False)  # of texts that wait
    found: dict[int, Any] = field(default_factory=dict)  # by place
    deaths: Counter[int] = field(default_factory=Counter)  # by place

    def __post_init__(self) -> None:
        self.places = deque(range(len(self.texts)))

    def work(self, place: int) -> int:
        return pieces(self.texts[place]) * self.kind.weight

    @property
    def over(self) -> bool:
        return self.answers.done()


@dataclass(frozen=True)
class TextBatch:
    kind: Kind
    entries: list[tuple[Job, int]]  # a job and the place of one of its texts

    @property
    def work(self) -> int:
        return sum(job.work(place) for job, place in self.entries)

    def heard(self, event: Message) -> None:
        """Only those that are alone in their batch tell what happens on the way."""
        self.entries[0][0].heard(event)

    def message(self, number: int) -> Message:
        texts = [job.texts[place] for job, place in self.entries]
        return {"id": number, "act": self.kind.act, "model": self.kind.model, "texts": texts, **self.entries[0][0].more}


class Queue:
    """The queue."""

    def __init__(self, limits: Limits, workers: int = 1) -> None:
        self.limits, self.workers = limits, workers
        self.jobs: deque[Job] = deque()
        self.work = 0  # waiting now
        self.done, self.seconds = 0.0, 0.0  # work of late, and how long it took
        self.something = asyncio.Event()

    # ------------------------------------------------------------ in

    def add(self, job: Job) -> None:
        """Problem 429 if it would have to wait too long."""
        work = sum(job.work(place) for place in job.places)
        if work > self.limits.queue:
            raise Problem(413, "this is more than can be translated in one request; send fewer texts")
        if self.work > self.bearable() or self.work + work > self.limits.queue:
            raise Problem(429, "too many requests are waiting; come back later", self.patience())
        self.work += work
        self.jobs.append(job)
        self.something.set()

    def bearable(self) -> float:
        """Work that is done within the longest wait, as far as is known."""
        return self.speed * self.limits.wait if self.seconds else UNMEASURED

    @property
    def speed(self) -> float:
        """Work a second."""
        return self.workers * self.done / self.seconds if self.seconds else 0.0

    def patience(self) -> int:
        """Seconds after which it is worth asking again."""
        return max(1, min(30, math.ceil(self.work / self.speed))) if self.speed else 1

    def drop(self, job: Job) -> None:
        """Nobody waits for it any more."""
        self.work -= sum(job.work(place) for place in job.places)
        job.places.clear()
        if job in self.jobs:
            self.jobs.remove(job)

    # ------------------------------------------------------------ out

    async def some(self) -> None:
        """Until something waits."""
        await self.something.wait()

    def take(self) -> TextBatch | None:
        """Of the kind that waits longest, one text of each request in turn: a long request delays nobody."""
        self.jobs = deque(job for job in self.jobs if job.places)
        if not self.jobs:
            self.something.clear()
            return None
        kind = self.jobs[0].kind
        same = deque(job for job in self.jobs if job.kind == kind)
        entries: list[tuple[Job, int]] = []
        room = BATCH_PIECES * kind.weight
        while same and (room > 0 or not entries) and len(entries) < BATCH_TEXTS:
            job = same.popleft()
            alone = job.deaths[job.places[0]] >= TRIES - 1
            if alone and entries:
                continue
            place = job.places.popleft()
            room = 0 if alone else room - job.work(place)
            self.work -= job.work(place)
            entries.append((job, place))
            self.to_the_end(job)
            if job.places:
                same.append(job)
        return TextBatch(kind, entries)

    def to_the_end(self, job: Job) -> None:
        self.jobs.remove(job)
        if job.places:
            self.jobs.append(job)

    # ------------------------------------------------------------ back

    def answer(self, batch: TextBatch, found: list[Any], seconds: float) -> None:
        self.done = FORGET * self.done + batch.work
        self.seconds = FORGET * self.seconds + seconds
        for (job, place), one in zip(batch.entries, found, strict=True):
            job.found[place] = one
            if len(job.found) == len(job.texts) and not job.over:
                job.answers.set_result([job.found[i] for i in range(len(job.texts))])

    def fail(self, batch: TextBatch, problem: Problem) -> None:
        for job, _ in batch.entries:
            if not job.over:
                job.answers.set_exception(problem)

    def died(self, batch: TextBatch) -> None:
        """A process died over it: all of it goes back to the front, what died too often is given up."""
        for job, place in batch.entries:
            job.deaths[place] += 1
            if job.over:
                continue
            if job.deaths[place] >= TRIES:
                job.answers.set_exception(Problem(500, "this text cannot be translated; the fault is ours"))
                continue
            job.places.appendleft(place)
            self.work += job.work(place)
            if job not in self.jobs:
                self.jobs.appendleft(job)
        self.something.set()
