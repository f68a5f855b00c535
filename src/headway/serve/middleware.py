"""Around everything: a number for every request, one line in the log, the counts, safe headers, and the last net."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headway.serve.logs import Log, Sparse, place
from headway.serve.problems import Problem, problem_response
from headway.serve.prometheus import Measures

CLIENT_LEFT = 499
REFUSALS = (401, 403, 429, 503)  # a flood of these is counted, and written only in part
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")  # others are logged as "other"
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
SAFE = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
TOLD = ("pair", "model", "texts", "characters")  # what routes put into request.state for the log


def note(request: Request, source: str, target: str, texts: Sequence[str]) -> None:
    """What a request was about, for the log."""
    request.state.pair = f"{source}-{target}"
    note_texts(request, texts)


def note_model(request: Request, model: str, texts: Sequence[str]) -> None:
    """The same, where a model need not translate."""
    request.state.model = model
    note_texts(request, texts)


def note_texts(request: Request, texts: Sequence[str]) -> None:
    request.state.texts, request.state.text = len(texts), list(texts)
    request.state.characters = sum(map(len, texts))


class RequestLog:
    """The outermost layer. Nothing that goes wrong inside reaches a client or the log in its own words."""

    def __init__(self, app: ASGIApp, log: Log, measures: Measures, log_text: bool = False, prefix: str = "") -> None:
        self.app, self.log, self.measures, self.log_text, self.prefix = app, log, measures, log_text, prefix
        self.refusals = Sparse(log, "more refused requests")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = time.monotonic()
        state: dict[str, Any] = scope.setdefault("state", {})
        state["id"], seen = secrets.token_hex(8), {"status": CLIENT_LEFT}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in {**SAFE, "X-Request-Id": state["id"]}.items():
                    headers.setdefault(name, value)
            elif not message.get("more_body", False):
                state["answered"] = True
            await send(message)

        self.measures.in_flight.inc()
        try:
            await self.app(scope, receive, sending)
        except Exception as error:
            self.log.write("error", id=state["id"], event="a fault in headway", fault=place(error))
            if seen["status"] == CLIENT_LEFT:
                await unexpected(scope["path"].removeprefix(self.prefix))(scope, receive, sending)
        finally:
            self.measures.in_flight.dec()
            self.record(scope, state, seen["status"], time.monotonic() - begun)

    def record(self, scope: Scope, state: dict[str, Any], status: int, seconds: float) -> None:
        """The route as it was written, not the path as it was sent: a path may hold anything."""
        route = getattr(scope.get("route"), "path", "none")
        self.measures.requests.labels(route, status).inc()
        self.measures.seconds.labels(route).observe(seconds)
        told = {name: state[name] for name in (*TOLD, *(["text"] if self.log_text else [])) if name in state}
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.refusals.settle()
        (self.refusals if status in REFUSALS else self.log).write(
            "info",
            id=state["id"],
            method=method,
            route=route,
            status=status,
            milliseconds=round(1000 * seconds, 1),
            **told,
        )


def unexpected(path: str) -> Response:
    return problem_response(Problem(500, "a fault of the server; it has been noted"), path)
