"""The HTTP server: uvicorn, with patience for clients limited and a stop that lets everybody finish."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from headway.errors import UsageError
from headway.serve.app import create
from headway.serve.logs import listen_to_libraries
from headway.serve.service import Service
from headway.serve.settings import Settings

KEEP_ALIVE = 20  # seconds a connection may be idle between requests
MOST_CONNECTIONS = 2000
BACKLOG = 1024  # connections that wait to be accepted
STOPS = (signal.SIGINT, signal.SIGTERM)


class PatientProtocol(H11Protocol):
    """A connection whose headers must come within so many seconds, at its beginning and for each request."""

    def __init__(self, *args: Any, patience: float, **named: Any) -> None:
        super().__init__(*args, **named)
        self.patience = patience
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self.unwatch()
        super().connection_lost(exc)

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


class Server(uvicorn.Server):
    """Ends with 0 when it is told to stop: that is what it was asked for."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self.stopping = stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in STOPS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.stopping()
        super().handle_exit(sig, frame)


def run(settings: Settings) -> None:
    """Serve until told to stop."""
    with listening(settings) as listener:
        asyncio.run(serve(settings, listener))


async def serve(settings: Settings, listener: socket.socket) -> None:
    service = Service(settings)
    listen_to_libraries(service.log)
    async with service.opened():
        host, port = listener.getsockname()[:2]
        where = f"[{host}]" if ":" in host else host
        address = f"http://{where}:{port}{settings.url_prefix}"
        pairs = [f"{pair.source}-{pair.target}" for pair in service.pairs]
        listener.listen(BACKLOG)  # not before: nobody should wait for models to be loaded
        engines = {name: f"{one.engine} ({one.precision}): {one.reason}" for name, one in service.models.items()}
        names = {"models": list(service.models), "pairs": pairs, "engines": engines}
        service.log.write("info", event="listening", address=address, **names)
        if sys.stdout.isatty():
            print(f"Open {address} in a browser. Ctrl-C stops.", flush=True)
        await server_of(service, settings).serve([listener])


def server_of(service: Service, settings: Settings) -> Server:
    config = uvicorn.Config(
        create(service, settings),
        http=partial(PatientProtocol, patience=settings.limits.receive),  # pyright: ignore[reportArgumentType]
        ws="none", lifespan="off", log_config=None, access_log=False, server_header=False, proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=math.ceil(settings.limits.deadline) + 1,
        h11_max_incomplete_event_size=settings.limits.header, limit_concurrency=MOST_CONNECTIONS, backlog=BACKLOG,
    )  # fmt: skip
    return Server(config, lambda: setattr(service, "draining", True))


def listening(settings: Settings) -> socket.socket:
    """Taken before the models are loaded: a port in use should be known at once."""
    with contextlib.ExitStack() as undo:
        try:
            found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
            listener = undo.enter_context(socket.socket(found[0][0], socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(found[0][4])
        except OSError as error:
            where = f"--host {settings.host} --port {settings.port}"
            raise UsageError(f"{where}: cannot listen there: {error.strerror}; choose another") from None
        undo.pop_all()
    return listener
