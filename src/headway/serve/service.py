"""What the routes ask for: translate, stream, predict, trace. First checks, then the queue, then model processes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from headway.errors import HeadwayError
from headway.serve.batching import EventHandler, Job, Kind, Queue, ignore_event
from headway.serve.channel import Message
from headway.serve.crowd import ClientCounts
from headway.serve.keys import Keys
from headway.serve.logs import Log
from headway.serve.models import Offered, Pair, model_ids, offered
from headway.serve.pool import Pool, Start
from headway.serve.problems import Problem, too_late
from headway.serve.process import Died, ModelProcess
from headway.serve.prometheus import Measures
from headway.serve.reading import Readers, StartReading, start_reading
from headway.serve.settings import Settings

PREDICT_WEIGHT = 5  # what a piece costs at most: models that write search, too
TRACE_WEIGHT = 100  # what a piece costs when it is looked at from all sides
TRACER_NICENESS = 5  # of the process that makes traces: translations come first


@dataclass(frozen=True)
class Answer:
    """A translation of one text. Scores are natural logarithms."""

    text: str
    score: float = 0.0  # log-probability, made comparable between lengths
    confidence: float = 1.0  # mean probability of a piece; 0 for runaways and loops
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    alignment: list[tuple[int, int]] = field(default_factory=list)  # source word - target word
    alternatives: list[Answer] = field(default_factory=list)  # other translations, the best first

    @classmethod
    def of(cls, message: Message) -> Answer:
        alignment = [(source, target) for source, target in message["alignment"]]
        others = [cls.of(other) for other in message["alternatives"]]
        return cls(**{**message, "alignment": alignment, "alternatives": others})


@dataclass(frozen=True)
class Predicted:
    """What a model of any task makes of one text."""

    text: str  # as it is written to a file
    facts: Message  # with all numbers


class Service:
    """The models, and the queue in front of them."""

    def __init__(
        self, settings: Settings, start: Start | None = None, log: Log | None = None, read: StartReading = start_reading
    ) -> None:
        self.settings, self.limits = settings, settings.limits
        self.keys = Keys.read(settings.key_file) if settings.key_file else Keys()
        self.folders = model_ids(settings.folders)
        self.crowd = ClientCounts(self.limits)
        self.log, self.measures = log or Log(sys.stderr), Measures()
        self.measures.dropped.set_function(lambda: self.log.dropped)
        self.waiting = Queue(self.limits, settings.workers)
        self.measures.waiting.set_function(lambda: self.waiting.work)
        self.pool = Pool(start or self.start, self.waiting, settings.workers, settings.spares, self.log, self.measures)
        self.measures.processes.set_function(lambda: self.pool.alive)
        self.pool.adopted = self.describe
        self.tracing = Queue(replace(self.limits, deadline=self.limits.trace_deadline))
        self.tracer = Pool(start or self.start_tracer, self.tracing, 1, 0, self.log, self.measures)
        self.readers = Readers(read, self.limits, self.log)
        self.models: dict[str, Offered] = {}  # by id
        self.pairs: list[Pair] = []  # of all models, in the order of the folders
        self.background: set[asyncio.Task[None]] = set()  # work that goes on after its request
        self.draining = False
        self.serial = count(1)

    async def start_tracer(self) -> ModelProcess:
        """Traces have a process of their own, which makes way for translations."""
        return await self.start(TRACER_NICENESS)

    async def start(self, niceness: int = 0) -> ModelProcess:
        names = ("device", "engine", "precision", "workers")
        options = {name: getattr(self.settings, name) for name in names} | {"niceness": niceness}
        folders = {name: str(folder) for name, folder in self.folders.items()}
        return await ModelProcess.start(folders, options, self.log)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Service]:
        """With its models loaded; UsageError if one of them cannot be."""
        try:
            self.describe(await self.pool.open())
            await self.readers.open()
            yield self
        finally:
            for task in self.background:
                task.cancel()
            await asyncio.gather(*self.background, return_exceptions=True)
            for each in (self.readers, self.tracer, self.pool):
                await each.close()

    def describe(self, facts: Sequence[Message]) -> None:
        """Offer the models of which a model process has told."""
        self.models = {one["id"]: offered(one) for one in facts}
        self.pairs = [pair for model in self.models.values() for pair in model.pairs]

    @property
    def ready(self) -> bool:
        return self.pool.ready and not self.draining

    @property
    def trouble(self) -> str:
        """Why nothing can be answered, without the places where models lie; empty if all is well."""
        reason = self.pool.trouble
        for name, folder in self.folders.items():
            reason = reason.replace(str(folder.resolve()), name).replace(str(folder), name)
        return reason

    # ------------------------------------------------------------ what is there

    def find_pair(self, source: str = "", target: str = "", model: str = "") -> Pair:
        """The direction that is asked for; what is left open is the first that fits. Problem 400 if no model has it."""
        for pair in self.pairs:
            if model in ("", pair.model) and source in ("", pair.source) and target in ("", pair.target):
                return pair
        if model and model not in self.models:
            raise Problem(400, "there is no such model; see /v1/models")
        raise Problem(400, "no model translates in this direction; see /v1/models")

    def model(self, name: str = "") -> Offered:
        """A model of any task by its id, or the first. Problem 400 if there is none of this name."""
        found = self.models.get(name) if name else next(iter(self.models.values()), None)
        if found is None:
            raise Problem(400, "there is no such model; see /v1/models")
        return found

    def find_pair_of_any_task(self, source: str = "", target: str = "", model: str = "") -> Pair:
        """Like `pair`, but also through a model that does not translate: it has no languages."""
        if source or target or (not model and self.pairs) or self.model(model).pairs:
            return self.find_pair(source, target, model)
        return Pair("", "", self.model(model).id)

    # ------------------------------------------------------------ what can be done

    async def translate(
        self,
        texts: Sequence[str],
        pair: Pair,
        *,
        alternatives: int = 0,  # other translations of each text
        beam: int | None = None,  # unset: as the server is set up, and wide enough for the alternatives
        alignments: bool = False,
        glossary: Sequence[tuple[str, str]] = (),
    ) -> list[Answer]:
        """One answer for each text, in order; blank texts come back as they are.

        Problem 400 where a limit is passed, 429 where the server is too busy. Cancelling drops what still waits.
        """
        self.check_texts(texts)
        self.check("alternatives", alternatives, 0, self.limits.n_best - 1)
        self.check("beam", 1 if beam is None else beam, 1, self.limits.beam)
        self.check("rows of the glossary", len(glossary), 0, self.limits.terms)
        width = max(self.settings.beam if beam is None else beam, alternatives + 1)
        manner = {"beam": width, "n_best": alternatives + 1, "to": pair.to, "split": True, "alignments": alignments}
        manner |= {"glossary": [list(row) for row in glossary]} if glossary else {}
        kind = Kind("translate", pair.model, json.dumps(manner), width)
        real = [place for place, text in enumerate(texts) if text.strip()]
        found = (
            await self.run_job(kind, [replace_lone_surrogates(texts[place]) for place in real], {"manner": manner})
            if real
            else []
        )
        self.measures.texts.labels(f"{pair.source}-{pair.target}").inc(len(texts))
        self.measures.characters.labels(f"{pair.source}-{pair.target}").inc(sum(map(len, texts)))
        answers = dict(zip(real, map(Answer.of, found), strict=True))
        return [answers.get(place) or Answer(text) for place, text in enumerate(texts)]

    async def stream(self, text: str, pair: Pair) -> AsyncIterator[str]:
        """The translation as it grows, greedily, piece by piece; the last one is whole."""
        self.check_texts([text])
        events: asyncio.Queue[Message] = asyncio.Queue()
        kind = Kind("stream", pair.model, serial=next(self.serial))
        more = {"manner": {"to": pair.to, "split": True}}
        work = asyncio.create_task(self.run_job(kind, [replace_lone_surrogates(text)], more, events.put_nowait))
        work.add_done_callback(lambda _: events.put_nowait({}))
        try:
            while event := await events.get():
                yield event["text"]
            yield (await work)[0]["text"]
        finally:
            work.cancel()

    async def predict(self, texts: Sequence[str], model: Offered) -> list[Predicted]:
        """What a model of any task makes of each text, in order."""
        self.check_texts(texts)
        kind = Kind("predict", model.id, weight=PREDICT_WEIGHT)
        found = await self.run_job(kind, [replace_lone_surrogates(text) for text in texts], {})
        self.measures.texts.labels(model.id).inc(len(texts))
        self.measures.characters.labels(model.id).inc(sum(map(len, texts)))
        return [Predicted(**one) for one in found]

    async def trace(self, request: Message, pair: Pair) -> Message:
        """All that can be seen of one text's way through the model."""
        if not self.settings.traces:
            raise Problem(403, "this server shows no traces")
        self.check_texts([request["q"]])
        kind = Kind("trace", pair.model, weight=TRACE_WEIGHT, serial=next(self.serial))
        more = {"request": {**request, "target": pair.to}}
        async with self.in_time(self.limits.trace_deadline):
            await self.tracer_at_work()
            return (await self.run_job(kind, [replace_lone_surrogates(request["q"])], more, waiting=self.tracing))[0]

    async def tracer_at_work(self) -> None:
        """The process for traces is started by the first of them."""
        try:
            await self.tracer.ensure()
        except (Died, OSError, HeadwayError):
            self.log.write("error", event="the process for traces could not be started")
            raise Problem(503, "the process for traces cannot be started; come back later", 5) from None

    def start_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that goes on after its request, until the server stops."""
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)
        return task

    @asynccontextmanager
    async def in_time(self, seconds: float | None = None) -> AsyncIterator[None]:
        """What takes longer is stopped, with a Problem 429. Without `seconds` the deadline of a request counts."""
        seconds = self.limits.deadline if seconds is None else seconds
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise too_late(seconds) from None

    async def run_job(
        self,
        kind: Kind,
        texts: list[str],
        more: Message,
        heard: EventHandler = ignore_event,
        waiting: Queue | None = None,
    ) -> list[Any]:
        """Through a queue, the usual one if no other is given, and a model process, before the deadline."""
        waiting = waiting or self.waiting
        answers: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if trouble := self.trouble:
            raise Problem(503, trouble, 5)
        job = Job(kind, texts, answers, more, heard)
        waiting.add(job)
        try:
            async with asyncio.timeout(waiting.limits.deadline):
                return await answers
        except TimeoutError:
            raise too_late(waiting.limits.deadline, waiting.patience()) from None
        finally:
            answers.cancel()
            waiting.drop(job)

    # ------------------------------------------------------------ limits

    def check_texts(self, texts: Sequence[str]) -> None:
        self.check("number of texts", len(texts), 1, self.limits.texts)
        longest = max(map(len, texts))
        if longest > self.limits.text:
            raise Problem(400, f"Invalid request: request ({longest}) exceeds text limit ({self.limits.text})")

    def check(self, name: str, value: int, low: int, high: int) -> None:
        if not low <= value <= high:
            raise Problem(400, f"Invalid request: {name} must be from {low} to {high}")


def replace_lone_surrogates(text: str) -> str:
    """Half a surrogate pair is no text."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
