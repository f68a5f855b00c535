"""Servers for tests: in this process with any kind of worker, or real ones with processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.types import ASGIApp

from headway.serve.app import create
from headway.serve.batching import ignore_event
from headway.serve.logs import Log
from headway.serve.model_handlers import ModelHandlers
from headway.serve.process import Died
from headway.serve.reader import Reader
from headway.serve.reading import StartReading
from headway.serve.service import Service
from headway.serve.settings import Limits, Settings

PATIENCE = 120  # seconds until a test gives up
FACTS = {
    "id": "toy", "folder": "/nowhere/toy", "pairs": [["en", "de", ""]], "parameters": 1, "encoder_layers": 1,
    "decoder_layers": 1, "heads": 1, "width": 1, "vocabulary": [9, 9], "engine": "fake", "precision": "fp32",
}  # fmt: skip


class FakeWorker:
    """Says every text in capitals; `act` may wait, fail or die before."""

    def __init__(self, act: Callable[[dict[str, Any]], Any] | None = None) -> None:
        self.facts, self.act = [FACTS], act
        self.dead = asyncio.Event()
        self.gone = asyncio.ensure_future(self.dead.wait())
        self.stopped: list[int] = []

    async def ask(self, message: dict[str, Any], heard: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        result = self.act(message) if self.act else None
        answer = await result if asyncio.iscoroutine(result) else result
        if answer == "die":
            self.dead.set()
            raise Died
        say = predicted if message["act"] == "predict" else said
        return answer or {"found": [say(text) for text in message["texts"]]}

    def stop(self, number: int) -> None:
        self.stopped.append(number)

    async def end(self) -> None:
        self.dead.set()
        await self.gone


def said(text: str) -> dict[str, Any]:
    return {
        "text": text.upper(), "score": -1.0, "confidence": 0.5, "tokens": [], "token_scores": [], "alignment": [],
        "alternatives": [],
    }  # fmt: skip


def predicted(text: str) -> dict[str, Any]:
    return {"text": text.upper(), "facts": {"text": text.upper()}}


class DeskWorker(FakeWorker):
    """Real models, in a thread of this process."""

    def __init__(self, folders: dict[str, Path]) -> None:
        super().__init__()
        options = {"device": "cpu", "engine": "torch", "precision": "auto", "workers": 1}
        self.desk = ModelHandlers(folders, options, ignore_event)
        self.facts = self.desk.facts()

    async def ask(self, message: dict[str, Any], heard: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        loop = asyncio.get_running_loop()

        def say(told: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(heard, told["event"])

        self.desk.say = say
        return {"found": await asyncio.to_thread(self.desk.answer, message, lambda: False)}


class ReadingWorker(FakeWorker):
    """Reads and writes documents, in a thread of this process."""

    async def ask(self, message: dict[str, Any], heard: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        read = json.loads(json.dumps(message))  # as it comes out of a pipe
        return {"found": json.loads(json.dumps(await asyncio.to_thread(Reader().answer, read, lambda: False)))}


async def start_reading(log: Log) -> Any:  # noqa: ARG001
    return ReadingWorker()


@dataclass
class Local:
    """A service and its application in this process."""

    service: Service
    app: ASGIApp
    log: io.StringIO
    workers: list[Any]

    def addressed(self, address: str) -> ASGIApp:
        """The application as it is seen from an address."""

        async def seen(scope: Any, receive: Any, send: Any) -> None:
            await self.app({**scope, "client": (address, 1)}, receive, send)

        return seen

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@contextlib.asynccontextmanager
async def local(
    make: Callable[[], Any] = FakeWorker, read: StartReading = start_reading, **settings: Any
) -> AsyncIterator[Local]:
    log, workers = io.StringIO(), []

    told = settings.pop("facts", {})

    async def start() -> Any:
        workers.append(make())
        workers[-1].facts = [{**facts, **told} for facts in workers[-1].facts]
        return workers[-1]

    patient = Limits(deadline=60.0, trace_deadline=60.0)  # a slow machine is no fault
    chosen = Settings(**{"folders": (Path("toy"),), "spares": 0, "limits": patient, **settings})
    async with Service(chosen, start, Log(log), read).opened() as service:
        yield Local(service, create(service, chosen), log, workers)


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    unread: int = 0  # parts of the request that the application did not read

    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: ASGIApp, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None,
    parts: list[bytes] | None = None, left: asyncio.Event | None = None,
) -> Reply:  # fmt: skip
    """One request, straight into the application; `left` is set when the client goes away."""
    given = {"content-type": "application/json", **(headers or {})}
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    waiting = [*(parts if parts is not None else [raw])]
    name, _, query = path.partition("?")
    scope = {
        "type": "http", "method": method, "path": name, "raw_path": quote(name).encode(),
        "query_string": query.encode(), "root_path": "",
        "headers": [(key.lower().encode(), value.encode()) for key, value in given.items()],
        "scheme": "http", "server": ("127.0.0.1", 5000), "client": ("127.0.0.1", 1), "http_version": "1.1",
    }  # fmt: skip
    reply = Reply(0, {}, b"")

    async def receive() -> dict[str, Any]:
        if waiting:
            part = waiting.pop(0)
            reply.unread = len(waiting)
            return {"type": "http.request", "body": part, "more_body": bool(waiting)}
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {key.decode().lower(): value.decode() for key, value in message["headers"]}
        else:
            reply.body += message.get("body", b"")

    async with asyncio.timeout(PATIENCE):
        await app(scope, receive, send)  # pyright: ignore[reportArgumentType]
    return reply


# ---------------------------------------------------------------- real ones


def children(parent: int) -> list[int]:
    """Processes that live, the oldest first."""
    found: list[tuple[int, int]] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, above, *rest = path.read_text(encoding="latin-1").rpartition(")")[2].split()
            if int(above) == parent and state != "Z":
                found.append((int(rest[17]), int(path.parent.name)))  # its start, in ticks since the machine's
    return [number for _, number in sorted(found)]


def program(number: int) -> str:
    """The module that a process of Python runs."""
    words = Path(f"/proc/{number}/cmdline").read_bytes().decode().split("\0")
    return words[words.index("-m") + 1] if "-m" in words else ""


@dataclass
class Running:
    """A server process and what it has logged."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    url: str = ""

    def workers(self) -> list[int]:
        """Model processes that live, the oldest first: that is the one at work."""
        return [number for number in children(self.process.pid) if program(number) == "headway.serve.worker"]


@contextlib.contextmanager
def running(*arguments: object, **environment: str) -> Iterator[Running]:
    """`headway serve` with these arguments, on a free port."""
    command = [sys.executable, "-m", "headway", "serve", *map(str, arguments), "--port", "0", "--deadline", "60"]
    command += ["--trace-deadline", "60"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    server, up = Running(process), threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            server.lines.append(line)
            if '"listening"' in line:
                server.url = json.loads(line)["address"]
                up.set()
        up.set()

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        assert up.wait(PATIENCE) and server.url, server.lines
        yield server
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        thread.join()
        assert process.stderr is not None
        process.stderr.close()
