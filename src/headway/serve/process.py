"""A model process, seen from the server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from headway.errors import HeadwayError, UsageError
from headway.serve import channel
from headway.serve.channel import Message


class Died(Exception):
    """The process is gone, or does not answer."""


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

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process, self.to, self.back = process, process.stdin, process.stdout
        self.facts: list[Message] = []
        self.gone = asyncio.create_task(process.wait())

    @classmethod
    async def start(cls, models: dict[str, str], options: dict[str, Any]) -> Self:
        """A process that has opened all models; UsageError if it cannot open one of them."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", cls.program,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        worker = cls(process)
        try:
            worker.to.write(channel.frame({"models": models, "options": options}))
            first = await worker.heard()
        except BaseException:
            await worker.end()
            raise
        if "refused" in first:
            await worker.end()
            raise refused(first)
        worker.facts = first["ready"]
        return worker

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


def refused(message: Message) -> HeadwayError:
    error = UsageError(message["refused"])
    error.exit_code = message["code"]
    return error
