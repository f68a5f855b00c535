"""What every request passes: server name, number of requests, key, size and speed of its body; and its end."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.serve.crowd import PROBES, ClientCounts, client_of
from headway.serve.hosts import Hosts
from headway.serve.keys import Keys, key_in_header
from headway.serve.problems import Problem, problem_response
from headway.serve.settings import Limits

OPEN = ("", "/", "/health", "/ready", "/languages", "/frontend/settings")  # need no key, if they are only read
OPEN_FOLDERS = ("/page/", "/download_file/")  # the second under names that nobody can guess
KEY_IN_BODY = ("/", "/translate", "/detect", "/translate_file", "/suggest")  # LibreTranslate's: the route reads the key
FILE_ROUTES = ("/translate_file", "/v2/document")  # may bring more bytes
READING = ("GET", "HEAD", "OPTIONS")
CLOSING = (400, 408, 413, 431)  # the rest of such a request is not read
SWALLOWED = 8  # times the limit: what is read and thrown away of a body that is too large, so that its sender hears us
MOST_FIELDS = 100  # of a query


def admit(request: Request, keys: Keys, shown: str | None) -> None:
    """For routes whose key comes in the body: Problem unless a key was accepted already or this one is valid."""
    if not getattr(request.state, "admitted", False):
        hold_key(request.scope, keys.check(shown))


def hold_key(scope: Scope, key: str) -> None:
    """Count the request for its key, until it is answered, and note whose it is."""
    scope["state"]["owner"] = key
    if key:
        scope["state"]["held"].enter_context(scope["state"]["crowd"].showing(key))


def key_in_query(query: bytes) -> str | None:
    try:
        return parse_qs(query.decode("latin-1"), max_num_fields=MOST_FIELDS).get("api_key", [None])[0]
    except ValueError:
        raise Problem(400, f"Invalid request: more than {MOST_FIELDS} parameters") from None


class Guard:
    """Around the whole application."""

    def __init__(
        self, app: ASGIApp, keys: Keys, crowd: ClientCounts, hosts: Hosts, limits: Limits, prefix: str = ""
    ) -> None:
        self.app, self.keys, self.crowd, self.hosts = app, keys, crowd, hosts
        self.limits, self.prefix = limits, prefix
        self.buffered = 0  # bytes of bodies that are here but not whole

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(self.prefix)
        with ExitStack() as held:
            scope.setdefault("state", {}).update(held=held, crowd=self.crowd)
            try:
                self.check_form(scope)
                if path not in PROBES:
                    held.enter_context(self.crowd.asking(client_of((scope["client"] or ("",))[0])))
                scope["state"]["admitted"] = self.admitted(scope, path)
                body = await self.body(receive, path)
            except Problem as problem:
                answer = problem_response(problem, path)
                if problem.status in CLOSING:
                    answer.headers["Connection"] = "close"
                await answer(scope, receive, send)
                return
            if body is not None:
                await self.run_until_client_leaves(scope, body, receive, send)

    def check_form(self, scope: Scope) -> None:
        """The HTTP parser limits only headers that come in pieces, and believes one of two lengths."""
        size = len(scope["path"]) + len(scope["query_string"])
        if size + sum(len(name) + len(value) for name, value in scope["headers"]) > self.limits.header:
            raise Problem(431, f"the address and the headers have more than {self.limits.header:,} bytes")
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            raise Problem(400, "Invalid request: it gives its length both by Content-Length and by Transfer-Encoding")
        self.hosts.check(headers.get("host"))

    # ------------------------------------------------------------ key

    def admitted(self, scope: Scope, path: str) -> bool:
        """Whether a key was accepted, or none is needed; False where the route has to look for it."""
        is_read = scope["method"] in READING or path == "/languages"  # LibreTranslate's clients post to it
        if not self.keys.required or (is_read and (path in OPEN or path.startswith(OPEN_FOLDERS))):
            return True
        shown = key_in_header(Headers(scope=scope).get("authorization")) or key_in_query(scope["query_string"])
        if shown is None and path in KEY_IN_BODY and scope["method"] == "POST":
            return False
        hold_key(scope, self.keys.check(shown))
        return True

    # ------------------------------------------------------------ body

    async def body(self, receive: Receive, path: str) -> bytes | None:
        """All of it; None if the client leaves. Problem if it is too large or too slow, or too much with all others."""
        limit = self.limits.file if path.startswith(FILE_ROUTES) else self.limits.body
        parts = BodyBuffer(limit, self)
        try:
            async with asyncio.timeout(self.limits.receive):
                while (message := await receive())["type"] == "http.request":
                    parts.add(message.get("body", b""))
                    if not message.get("more_body", False):
                        return parts.whole()
        except TimeoutError:
            raise Problem(408, "the request came too slowly") from None
        finally:
            parts.release()
        return None

    # ------------------------------------------------------------ client

    async def run_until_client_leaves(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application; stop it when its client leaves."""
        left = asyncio.Event()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        running = asyncio.create_task(call(self.app, scope, replay, send))
        watching = asyncio.create_task(watch())
        try:
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
            left.set()
            if not running.done() and not scope["state"].get("answered"):
                running.cancel()
                scope["state"]["left"] = True
            await running
        except asyncio.CancelledError:
            if not scope["state"].get("left"):
                running.cancel()
                raise
        finally:
            watching.cancel()


async def call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


class BodyBuffer:
    """A body on its way in."""

    def __init__(self, limit: int, guard: Guard) -> None:
        self.limit, self.guard = limit, guard
        self.parts: list[bytes] = []
        self.size = self.held = 0

    def add(self, part: bytes) -> None:
        self.size += len(part)
        if self.size > SWALLOWED * self.limit:
            raise self.too_large()
        if self.size > self.limit:
            self.release()
            return
        if self.guard.buffered + len(part) > self.guard.limits.buffered:
            raise Problem(429, "too much is being received at once; come back later", 1)
        self.parts.append(part)
        self.held += len(part)
        self.guard.buffered += len(part)

    def whole(self) -> bytes:
        if self.size > self.limit:
            raise self.too_large()
        return b"".join(self.parts)

    def too_large(self) -> Problem:
        return Problem(413, f"the request has more than {self.limit:,} bytes")

    def release(self) -> None:
        self.guard.buffered -= self.held
        self.held = 0
        self.parts = []
