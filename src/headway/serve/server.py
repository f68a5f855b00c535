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

from headway.errors import UsageError
from headway.serve.app import create
from headway.serve.connections import CarefulProtocol
from headway.serve.logs import Log, Printed, Sparse, listen_to_libraries, standard_error
from headway.serve.service import Service
from headway.serve.settings import Settings

KEEP_ALIVE = 20  # seconds a connection may be idle between requests
OTHER_FILES = 100  # that a server may have open besides connections
BACKLOG = 1024  # connections that wait to be accepted
STOPS = (signal.SIGINT, signal.SIGTERM)


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
    allow_files(2 * settings.limits.connections + OTHER_FILES)  # those that are being refused count, too
    with contextlib.closing(standard_error()) as sink:
        service = Service(settings, log=Log(sink))
        listen_to_libraries(service.log)
        with contextlib.redirect_stderr(Printed(service.log)):
            await serve_models(service, settings, listener)


async def serve_models(service: Service, settings: Settings, listener: socket.socket) -> None:
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


def allow_files(needed: int) -> None:
    """Let this process open so many files, as far as the system allows it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def server_of(service: Service, settings: Settings) -> Server:
    refusals = Sparse(service.log, "more refused requests")

    def refused() -> None:
        service.measures.requests.labels("none", 429).inc()
        refusals.write("info", event="a client asks for too much at once", status=429)

    protocol = partial(
        CarefulProtocol,
        patience=settings.limits.receive, prefix=settings.url_prefix, crowd=service.crowd, refused=refused,
    )  # fmt: skip
    config = uvicorn.Config(
        create(service, settings),
        http=protocol,  # pyright: ignore[reportArgumentType]
        ws="none", lifespan="off", log_config=None, access_log=False, server_header=False, proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=math.ceil(settings.limits.deadline) + 1,
        h11_max_incomplete_event_size=settings.limits.header, backlog=BACKLOG,
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
