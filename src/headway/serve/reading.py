"""Texts and files are parsed in processes of their own: none of them can hold up the server, and all can be ended."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from headway.serve.batching import ignore_event
from headway.serve.channel import Message
from headway.serve.detection import Guess
from headway.serve.logs import Log
from headway.serve.problems import Problem, too_late
from headway.serve.process import Died, ModelProcess, Worker
from headway.serve.settings import Limits
from headway.serve.tagged_sentence import Translated

PROCESSES = 2
FILES = 1  # that are parsed at once: so a process is left for texts
FILE_SECONDS = 60.0  # to read or to write one file
MOST_WAITING = 200  # requests
StartReading = Callable[[Log], Awaitable["Worker"]]
DEATHS = 2  # of processes over one request, after which it is given up


class ReadingProcess(ModelProcess):
    """A process without models."""

    program = "headway.serve.reader"


async def start_reading(log: Log) -> Worker:
    return await ReadingProcess.start({}, {}, log)


@dataclass(frozen=True)
class OpenedDocument:
    """A text or a file as the server knows it."""

    kind: str  # text, html, xml, or the ending of a file's name
    source: str  # a file's bytes in Base64
    texts: list[str]  # what there is to translate
    aligned: bool  # whether its writer needs to know which word came from which
    options: Message = field(default_factory=dict)  # how texts of this kind are read


class Readers:
    """The reading processes. One that is not done when its request is over is ended."""

    def __init__(self, start: StartReading, limits: Limits, log: Log) -> None:
        self.start, self.limits, self.log = start, limits, log
        self.turns, self.files = asyncio.Semaphore(PROCESSES), asyncio.Semaphore(FILES)
        self.idle: list[Worker] = []
        self.waiting = 0
        self.serial = count(1)

    async def open(self) -> None:
        """Start one; the other comes when it is needed."""
        self.idle.append(await self.start(self.log))

    async def close(self) -> None:
        while self.idle:
            await self.idle.pop().end()

    # ------------------------------------------------------------ what they do

    async def read(self, kind: str, sources: Sequence[str], **options: Any) -> list[OpenedDocument]:
        """Each source as a document, read as the options of its kind say."""
        found = await self.call("read", kind=kind, sources=list(sources), options=options)
        return [
            OpenedDocument(kind, source, **one, options=options) for source, one in zip(sources, found, strict=True)
        ]

    async def write(self, documents: Sequence[OpenedDocument], answers: Sequence[Sequence[Translated]]) -> list[str]:
        """Documents of one kind and the same options, each with a translation for each of its texts."""
        said = [[[one.text, list(one.alignment)] for one in mine] for mine in answers]
        if not documents:
            return []
        first, sources = documents[0], [document.source for document in documents]
        return await self.call("write", kind=first.kind, sources=sources, options=first.options, answers=said)

    async def read_file(self, suffix: str, data: bytes) -> OpenedDocument:
        source = b64encode(data).decode()
        async with self.files:
            (found,) = await self.call("read", FILE_SECONDS, kind=suffix, sources=[source], options={})
        return OpenedDocument(suffix, source, **found)

    async def write_file(self, document: OpenedDocument, answers: Sequence[Translated]) -> bytes:
        said = [[one.text, list(one.alignment)] for one in answers]
        given = {"kind": document.kind, "sources": [document.source], "options": {}, "answers": [said]}
        async with self.files:
            (found,) = await self.call("write", FILE_SECONDS, **given)
        return b64decode(found)

    async def guesses(self, known: Sequence[str], texts: Sequence[str]) -> list[list[Guess]]:
        """The likeliest languages of each text."""
        found = await self.call("guesses", known=known, texts=texts)
        return [[Guess(**guess) for guess in mine] for mine in found]

    async def source(self, known: Sequence[str], texts: Sequence[str], among: Sequence[str]) -> list[Guess]:
        """The likeliest of some languages, for each text."""
        return [Guess(**one) for one in await self.call("source", known=known, texts=texts, among=among)]

    # ------------------------------------------------------------ how

    async def call(self, act: str, seconds: float | None = None, **given: Any) -> Any:
        """Before the deadline, if nothing else is said. Problem 429 if that is too late or too many wait."""
        seconds = self.limits.deadline if seconds is None else seconds
        if self.waiting >= MOST_WAITING:
            raise Problem(429, "too many requests are waiting; come back later", 1)
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds), self.turns:
                return result_of(await self.call_with_retries({"act": act, "given": given}))
        except TimeoutError:
            raise too_late(seconds) from None
        except Fault as fault:
            self.log.write("error", event="a reading process failed", fault=str(fault))
            raise Problem(500, "this text cannot be read; the fault is ours") from None
        finally:
            self.waiting -= 1

    async def call_with_retries(self, message: Message) -> Message:
        for _ in range(DEATHS):
            try:
                return await self.call_once(message)
            except Died:
                self.log.write("warning", event="a reading process died; another takes its place")
        raise Fault("processes die over it")

    async def call_once(self, message: Message) -> Message:
        """By a process that is free or new. One that was interrupted is ended: it may go on for long."""
        worker = self.idle.pop() if self.idle else await self.start(self.log)
        try:
            answer = await worker.ask({"id": next(self.serial), **message}, ignore_event)
        except BaseException:
            await worker.end()
            raise
        self.idle.append(worker)
        return answer


class Fault(Exception):
    """A reading process failed; where, for the log."""


def result_of(answer: Message) -> Any:
    """What was done; Problem if the request was wrong."""
    if "wrong" in answer:
        raise Problem(400, answer["wrong"])
    if "fault" in answer:
        raise Fault(answer["fault"])
    if "problem" in answer["found"]:
        raise Problem(*answer["found"]["problem"])
    return answer["found"]["done"]
