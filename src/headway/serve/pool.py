"""The model processes: each takes a batch when it is free. One that dies costs another try, but nobody an answer."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from headway.errors import HeadwayError
from headway.serve.batching import Queue, TextBatch
from headway.serve.channel import Message
from headway.serve.logs import Log
from headway.serve.problems import Problem
from headway.serve.process import Died, Worker
from headway.serve.prometheus import Measures

SILENCE = 30.0  # seconds after which a process that does not answer is taken for dead
LINGER = 5.0  # seconds after which a process that goes on with work nobody wants is ended
PAUSE = 1.0  # seconds before a process that could not be started is tried again

Start = Callable[[], Awaitable[Worker]]


class Pool:
    """`workers` processes at work and `spares` that are loaded already and wait for one to fail."""

    def __init__(self, start: Start, waiting: Queue, workers: int, spares: int, log: Log, measures: Measures) -> None:
        self.start, self.waiting, self.log, self.measures = start, waiting, log, measures
        self.workers, self.spares = workers, spares
        self.coming: deque[asyncio.Task[Worker]] = deque()  # loading, or loaded and waiting
        self.tending: list[asyncio.Task[None]] = []
        self.ending: list[asyncio.Task[None]] = []  # of spares that are not needed any more
        self.opening: asyncio.Task[list[Message]] | None = None
        self.alive = 0
        self.failed = ""  # why the last process could not be started; empty when one could
        self.since = time.monotonic()  # when the last process went
        self.facts: list[Message] = []  # about the models that are served
        self.adopted: Callable[[list[Message]], None] = lambda _: None  # told when these change
        self.number = 0  # of the last message

    async def open(self) -> list[Message]:
        """Start one process and learn what the models are; the others come while it works already."""
        try:
            first = await self.start()
        except Died as died:
            raise HeadwayError(f"the model process ended before it was ready: {died}") from None
        self.facts, self.since = first.facts, time.monotonic()
        self.coming.append(asyncio.create_task(return_worker(first)))
        self.coming += [asyncio.create_task(self.start_worker()) for _ in range(self.workers - 1 + self.spares)]
        self.tending = [asyncio.create_task(self.tend()) for _ in range(self.workers)]
        return first.facts

    async def ensure(self) -> None:
        """Open it, when it is first needed. Several may ask for that at once."""
        if self.opening is None or self.opening.done() and has_failed(self.opening):
            self.opening = asyncio.create_task(self.open())
        await asyncio.shield(self.opening)

    async def close(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
            await asyncio.gather(self.opening, return_exceptions=True)
        for task in (*self.tending, *self.coming):
            task.cancel()
        await asyncio.gather(*self.tending, *self.ending, return_exceptions=True)
        for spare in await asyncio.gather(*self.coming, return_exceptions=True):
            if not isinstance(spare, BaseException):
                await spare.end()

    @property
    def ready(self) -> bool:
        return self.alive > 0

    @property
    def trouble(self) -> str:
        """Why nothing can be answered, or nothing: a process that is just being replaced is no trouble."""
        if any(task.done() for task in self.tending):
            return "a fault of the server: its model processes are not looked after"
        if self.alive or not (self.failed or time.monotonic() > self.since + SILENCE):
            return ""
        return f"no model process is at work; {self.failed or 'the next one is still being loaded'}"

    # ------------------------------------------------------------ processes

    async def start_worker(self) -> Worker:
        """A process, however often it takes; the reason of each failure is kept and logged."""
        while True:
            try:
                worker = await self.start()
                self.failed = ""
                return worker
            except (Died, OSError, HeadwayError) as error:
                self.failed = f"a new one could not be started: {error}"
                self.log.write("error", event="a model process could not be started", reason=str(error))
                await asyncio.sleep(PAUSE)

    async def next(self) -> Worker:
        """One that is loaded and alive, or the first that will be."""
        while self.coming:
            self.coming = deque(sorted(self.coming, key=lambda task: not task.done()))
            worker = await self.coming.popleft()
            if not worker.gone.done():
                return worker
            await worker.end()
        return await self.start_worker()

    async def tend(self) -> None:
        """Keep one process at work; when it dies, the next one, and a new spare."""
        while True:
            worker = await self.next()
            self.alive += 1
            try:
                self.adopt(worker)
                while worker.facts == self.facts:
                    await self.turn(worker)
                self.coming += [asyncio.create_task(self.start_worker())] if self.spares else []
            except Died:
                self.measures.restarts.inc()
                self.log.write("warning", event="a model process died; another takes its place")
                self.coming += [asyncio.create_task(self.start_worker())] if self.spares else []
            finally:
                self.alive -= 1
                self.since = time.monotonic()
                await worker.end()

    def adopt(self, worker: Worker) -> None:
        """A process that was started after a model was exchanged on disk knows the newer one.

        From now on that is the one that is served and described: older processes go, each after its batch.
        """
        if worker.facts == self.facts:
            return
        self.log.write("warning", event="a model was exchanged on disk; the new one is served from now on")
        self.facts = worker.facts
        self.adopted(worker.facts)
        for spare in self.coming:
            spare.cancel()
            self.ending.append(asyncio.create_task(discard(spare)))
        self.ending = [task for task in self.ending if not task.done()]
        self.coming = deque(asyncio.create_task(self.start_worker()) for _ in range(self.spares))

    # ------------------------------------------------------------ batches

    async def turn(self, worker: Worker) -> None:
        """Wait for work and do a batch of it; Died also while waiting."""
        some = asyncio.create_task(self.waiting.some())
        await asyncio.wait({some, worker.gone}, return_when=asyncio.FIRST_COMPLETED)
        some.cancel()
        if worker.gone.done():
            raise Died
        if worker.facts != self.facts:
            return
        batch = self.waiting.take()
        if batch is None:
            return
        begun = time.monotonic()
        try:
            answer = await self.ask(worker, batch)
        except Died:
            self.waiting.died(batch)
            raise
        self.settle(batch, answer, time.monotonic() - begun)

    async def ask(self, worker: Worker, batch: TextBatch) -> Message:
        """A batch that everybody has left is called off; a process that goes on regardless is ended."""
        self.number += 1
        number = self.number
        asking = asyncio.create_task(worker.ask(batch.message(number), batch.heard))
        left = asyncio.create_task(asyncio.wait({job.answers for job, _ in batch.entries}))
        try:
            async with asyncio.timeout(SILENCE):
                await asyncio.wait({asking, left}, return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    worker.stop(number)
                    async with asyncio.timeout(LINGER):
                        return await asking
                return await asking
        except TimeoutError:
            raise Died from None
        finally:
            asking.cancel()
            left.cancel()

    def settle(self, batch: TextBatch, answer: Message, seconds: float) -> None:
        if "found" in answer:
            self.measures.batches.observe(len(batch.entries))
            self.waiting.answer(batch, answer["found"], seconds)
        elif "wrong" in answer:
            self.waiting.fail(batch, Problem(413 if answer["long"] else 400, answer["wrong"]))
        else:
            self.log.write("error", event="a model process failed", fault=answer["fault"])
            self.waiting.died(batch)


async def discard(spare: asyncio.Task[Worker]) -> None:
    (found,) = await asyncio.gather(spare, return_exceptions=True)
    if not isinstance(found, BaseException):
        await found.end()


def has_failed(task: asyncio.Task[list[Message]]) -> bool:
    return task.cancelled() or task.exception() is not None


async def return_worker(worker: Worker) -> Worker:
    return worker
