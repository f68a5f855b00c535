"""A connection: its headers must come in time, and what cannot be answered is refused before it costs anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from headway.serve.crowd import PROBES, ClientCounts, client_of, too_many
from headway.serve.middleware import SAFE
from headway.serve.problems import problem_response

LINGER = 1.0  # seconds in which a refused client may read why
MOST_UNREAD = 1 << 20  # bytes that are thrown away after an answer, before the connection is closed


class CarefulProtocol(H11Protocol):
    """The headers of each request have so many seconds to come. A client that asks for too much at once is told so.

    A refusal is written before the request is parsed: under overload it costs a tenth of an answer.
    """

    def __init__(
        self, *args: Any, patience: float, prefix: str, crowd: ClientCounts, refused: Callable[[], None], **named: Any
    ) -> None:
        super().__init__(*args, **named)
        self.patience, self.prefix, self.crowd, self.on_refused = patience, prefix, crowd, refused
        self.timer: asyncio.TimerHandle | None = None
        self.owner = ""
        self.welcome, self.refused = True, False
        self.unread = 0  # bytes that came after the answer

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.owner = client_of(self.client[0] if self.client else "")
        self.welcome = self.crowd.connect(self.owner)
        if self.welcome:
            self.watch()
        else:
            self.timer = self.loop.call_later(LINGER, self.transport.close)

    def data_received(self, data: bytes) -> None:
        if self.refused or self.is_answered:
            self.unread += len(data)
            if self.unread > MOST_UNREAD:
                self.transport.abort()
                return
        else:
            self.unread = 0
        if self.refused:
            return
        if self.begins and not self.is_probe(data) and (not self.welcome or self.crowd.is_full(self.owner)):
            self.refuse(data)
            return
        super().data_received(data)
        self.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self.unwatch()
        self.crowd.disconnect(self.owner)
        super().connection_lost(exc)

    # ------------------------------------------------------------ refusals

    @property
    def begins(self) -> bool:
        """Whether the next byte is the first of a request."""
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    @property
    def is_answered(self) -> bool:
        """Whether an answer has been given although the body is still coming."""
        return self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY

    def is_probe(self, data: bytes) -> bool:
        return self.path_of(data) in PROBES

    def path_of(self, data: bytes) -> str:
        words = data[:1000].split(b" ", 2)
        return words[1].partition(b"?")[0].decode("latin-1").removeprefix(self.prefix) if len(words) == 3 else ""

    def refuse(self, data: bytes) -> None:
        """Answer, end our side, and give the client a moment to read it: a close at once could take the answer away."""
        self.refused, self.unread = True, len(data)
        self.unwatch()
        self.on_refused()
        beginning = self.path_of(data)[:4]
        self.transport.write(refusal(beginning if beginning in ("/v1/", "/v2/", "/v3/") else "/"))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.timer = self.loop.call_later(LINGER, self.transport.close)

    # ------------------------------------------------------------ patience

    def watch(self) -> None:
        """More bytes do not reset the clock; only a whole header stops it."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.unwatch()
        elif self.timer is None:
            self.timer = self.loop.call_later(self.patience, self.timeout_keep_alive_handler)

    def unwatch(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@cache
def refusal(beginning: str) -> bytes:
    """The whole answer, in the words of the interface that has addresses with this beginning."""
    answer = problem_response(too_many(), beginning)
    answer.headers.update({**SAFE, "Connection": "close"})
    head = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return b"HTTP/1.1 429 Too Many Requests\r\n" + head + b"\r\n" + bytes(answer.body)
