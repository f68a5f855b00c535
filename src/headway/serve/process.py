"""A model process, seen from the server."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from headway.errors import HeadwayError, UsageError
from headway.serve import channel
from headway.serve.channel import Message
from headway.serve.logs import Log, Sparse, printable
from headway.subprocesses import python, surroundings

LAST_LINES = 20  # of what a process wrote on standard error that are kept
LONGEST_LINE = 300  # bytes of such a line
ENDING = 2.0  # seconds for a process that closed its pipe to end


class Died(Exception):
    """The process is gone, or does not answer; the text says why, if that is known."""


@runtime_checkable
class Worker(Protocol):
    """Whatever can do the work of a model process."""

    facts: list[Message]  # about its models
    gone: asyncio.Task[int]  # done when it has died

    async def ask(self, message: Message, heard: Callable[[Message], None]) -> Message:
        """The answer; what is told before it goes to `heard`. Raises Died."""
        ...

    def stop(self, number: int) -> None:
        """Nobody wants the answer to this message any more."""
        ...

    async def end(self) -> None: ...


class ModelProcess:
    """Spawned, so that it shares nothing with the server but two pipes."""

    program: ClassVar[str] = "headway.serve.worker"

    def __init__(self, process: asyncio.subprocess.Process, log: Log) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process, self.to, self.back = process, process.stdin, process.stdout
        self.facts: list[Message] = []
        self.gone = asyncio.create_task(process.wait())
        self.printed: deque[str] = deque(maxlen=LAST_LINES)
        self.listening = asyncio.create_task(self.listen(log)) if process.stderr else None

    @classmethod
    async def start(cls, models: dict[str, str], options: dict[str, Any], log: Log) -> Self:
        """A process that has opened all models; UsageError if it cannot open one of them, Died with the reason."""
        process = await asyncio.create_subprocess_exec(
            *python("-m", cls.program),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            **surroundings(),
        )  # fmt: skip
        worker = cls(process, log)
        try:
            folders = {name: os.path.abspath(folder) for name, folder in models.items()}  # it works elsewhere
            worker.to.write(channel.frame({"models": folders, "options": options}))
            first = await worker.heard()
        except (Died, OSError):
            raise Died(await worker.cause()) from None
        except BaseException:
            await worker.end()
            raise
        if "refused" in first:
            await worker.end()
            raise refused(first)
        worker.facts = first["ready"]
        return worker

    async def listen(self, log: Log) -> None:
        """Pass on what the process prints. Nobody else reads it, so a reader of the log cannot hold it up."""
        assert self.process.stderr is not None
        sparse, rest = Sparse(log, "more lines of a model process"), b""
        while part := await self.process.stderr.read(1 << 16):
            *lines, rest = (rest[-LONGEST_LINE:] + part).split(b"\n")
            for line in (printable(line[:LONGEST_LINE].decode("utf-8", "replace").strip()) for line in lines):
                if line:
                    self.printed.append(line)
                    sparse.write("warning", event="a model process printed", line=line)
        if rest.strip():
            self.printed.append(printable(rest[:LONGEST_LINE].decode("utf-8", "replace").strip()))

    async def cause(self) -> str:
        """Why a process that has closed its pipe is gone."""
        await asyncio.wait({self.gone}, timeout=ENDING)
        code = self.process.returncode
        await self.end()
        how = "it did not answer" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}: {self.printed[-1]}" if self.printed else how

    async def heard(self) -> Message:
        try:
            return await channel.receive(self.back)
        except (asyncio.IncompleteReadError, OSError, ValueError):
            raise Died from None

    async def ask(self, message: Message, heard: Callable[[Message], None]) -> Message:
        try:
            self.to.write(channel.frame(message))
            await self.to.drain()
        except OSError:
            raise Died from None
        while True:
            answer = await self.heard()
            if answer.get("id") != message["id"]:
                continue
            if "event" not in answer:
                return answer
            heard(answer["event"])

    def stop(self, number: int) -> None:
        if not self.to.is_closing():
            self.to.write(channel.frame({"stop": number}))

    async def end(self) -> None:
        """It holds nothing that could be lost."""
        if self.process.returncode is None:
            self.process.kill()
        self.to.close()
        await self.gone
        if self.listening:
            await asyncio.wait({self.listening}, timeout=ENDING)  # a child of its own may hold the pipe open
            self.listening.cancel()


def refused(message: Message) -> HeadwayError:
    error = UsageError(printable(message["refused"]))
    error.exit_code = message["code"]
    return error
