"""Clients of a translation server: as light as they can be, since they share the machine with it."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean
from urllib.parse import urlsplit

BEAM = 4


@dataclass(frozen=True)
class Sample:
    """One request."""

    at: float  # when it was answered
    seconds: float
    status: int


@dataclass
class Outcome:
    """All requests of one measurement."""

    samples: list[Sample] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    ended: float = 0.0

    @property
    def good(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.status == 200]

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return len(self.good) / (self.ended - self.begun)

    @property
    def statuses(self) -> dict[int, int]:
        return dict(sorted(Counter(sample.status for sample in self.samples).items()))

    def quantile(self, share: float, samples: Sequence[Sample] | None = None) -> float:
        chosen = sorted(sample.seconds for sample in (self.good if samples is None else samples))
        return chosen[min(len(chosen) - 1, int(share * len(chosen)))] if chosen else float("nan")


class Connection:
    """A connection that is kept."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def send(self, data: bytes) -> None:
        if self.writer is None or self.writer.is_closing():
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        assert self.reader is not None
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(next(line for line in head.split("\r\n") if line.startswith("content-length:")).split(":")[1])
        body = await self.reader.readexactly(length)
        if "connection: close" in head:
            self.close()
        return int(head.split(" ", 2)[1]), body

    async def translate(self, text: str) -> Sample:
        body = json.dumps({"texts": [text], "beam": BEAM}).encode()
        head = f"POST /v1/translate HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
        begun = time.monotonic()
        try:
            await self.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            status, _ = await self.answer()
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            status = 0
        return Sample(time.monotonic(), time.monotonic() - begun, status)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.reader = self.writer = None


def sentences(texts: Sequence[str], seed: int = 0) -> Iterator[str]:
    """The texts over and over, in an order that does not repeat soon."""
    dice = random.Random(seed)
    return (dice.choice(texts) for _ in itertools.count())


async def steady(url: str, texts: Sequence[str], going: Callable[[Outcome], bool], clients: int = 20) -> Outcome:
    """Clients that ask, wait for the answer, and ask again, as long as `going`."""
    outcome = Outcome()

    async def client(number: int) -> None:
        connection, source = Connection(url), sentences(texts, number)
        while going(outcome):
            outcome.samples.append(await connection.translate(next(source)))
        connection.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    outcome.ended = time.monotonic()
    return outcome


def lasting(seconds: float) -> Callable[[Outcome], bool]:
    return lambda outcome: time.monotonic() < outcome.begun + seconds


async def overload(url: str, texts: Sequence[str], rate: float, seconds: float, kept: bool = True) -> Outcome:
    """Clients that come at this rate whether others have been answered or not.

    Their connections are `kept` for those who come later, or each is new.
    """
    outcome, free, source = Outcome(), deque[Connection](), sentences(texts)

    async def one() -> None:
        connection = free.popleft() if free else Connection(url)
        outcome.samples.append(await connection.translate(next(source)))
        if kept:
            free.append(connection)
        else:
            connection.close()

    async with asyncio.TaskGroup() as group:
        for number in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, outcome.begun + number / rate - time.monotonic()))
            group.create_task(one())
    for connection in free:
        connection.close()
    outcome.ended = time.monotonic()
    return outcome


async def idle(url: str) -> None:
    """Asks once and keeps the connection; comes back when it is closed."""
    while True:
        connection = Connection(url)
        with suppress(OSError, asyncio.IncompleteReadError):
            await connection.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await connection.answer()
            assert connection.reader is not None
            await connection.reader.read(1)
        connection.close()


async def dawdle(url: str) -> None:
    """Sends a header that never ends, a byte at a time."""
    while True:
        connection = Connection(url)
        with suppress(OSError):
            await connection.send(b"GET /health HTTP/1.1\r\nX: ")
            while connection.reader is not None and not connection.reader.at_eof():
                await connection.send(b"x")
                await asyncio.sleep(1)
        connection.close()


def slope(values: Sequence[float]) -> tuple[float, float]:
    """Of a line through values at 0, 1, 2 ...: the slope, and half its 95 % interval."""
    count = len(values)
    middle, mean = (count - 1) / 2, fmean(values)
    spread = sum((place - middle) ** 2 for place in range(count))
    found = sum((place - middle) * (value - mean) for place, value in enumerate(values)) / spread
    rest = sum((value - mean - found * (place - middle)) ** 2 for place, value in enumerate(values))
    return found, 2.1 * (rest / max(1, count - 2) / spread) ** 0.5
