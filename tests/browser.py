"""A browser for tests, and a server for its page: real traces of a small model, or the same full of hostile text."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import torch

from headway.errors import UsageError
from headway.inspection.page_files import page_files
from headway.inspection.trace_request import EVERYTHING, Edit, Head, TraceRequest
from headway.serve.middleware import SAFE
from headway.storage.byte_tables import pack
from headway.tasks.trace import trace
from headway.tasks.translation.translator import Translator
from random_translators import made

PATIENCE = 30_000  # milliseconds until a test gives up; nothing ever waits this long on purpose
KINDS = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
SAID = ("text", "label", "piece", "source_piece", "formula", "position", "norm", "placement", "output", "reference")

# Thirty ways in which pages have been made to run what others wrote; the last begins with a sign that turns text round.
PAYLOADS = """
<script>alert(1)</script>
<img src=x onerror=alert(1)>
<svg onload=alert(1)>
"><script>alert(1)</script>
'><img src=x onerror=alert(1)>
</script><script>alert(1)</script>
</textarea><script>alert(1)</script>
</title><script>alert(1)</script>
</style><script>alert(1)</script>
<iframe src=javascript:alert(1)>
<a href=javascript:alert(1)>x</a>
javascript:alert(1)
data:text/html,<script>alert(1)</script>
<body onload=alert(1)>
<input autofocus onfocus=alert(1)>
<details open ontoggle=alert(1)>
<math><mtext></mtext><script>alert(1)</script></math>
<template><script>alert(1)</script></template>
<object data=javascript:alert(1)>
<embed src=javascript:alert(1)>
<base href=//evil.example/>
<link rel=stylesheet href=//evil.example/x.css>
<meta http-equiv=refresh content=0;url=//evil.example>
<form action=//evil.example><button>x
<style>@import '//evil.example/x.css'</style>
${alert(1)}{{alert(1)}}
<!--<script>alert(1)</script>-->
&lt;script&gt;alert(1)&lt;/script&gt;
url(//evil.example/x)
\u202e<script>alert(1)</script>
""".strip().split("\n")


@cache
def translator() -> Translator:
    return made()


def traced(body: dict[str, Any]) -> dict[str, Any]:
    """The answer of /v1/trace, as a server with one small model would give it."""
    return json.loads(remembered(json.dumps(body)))


@cache
def remembered(asked: str) -> str:
    """Tests ask the same again and again."""
    body = json.loads(asked)
    lists = {name: tuple(body.get(name, ())) for name in ("include", "prefix")}
    edit, ablate = (
        tuple(kind(**one) for one in body.get(name, ())) for name, kind in (("edit", Edit), ("ablate", Head))
    )
    request = TraceRequest(**{**body, **lists, "target": "", "edit": edit, "ablate": ablate})
    return json.dumps(trace(translator(), request))


def everything(text: str) -> dict[str, Any]:
    return traced({"q": text, "model": "toy", "include": EVERYTHING})


def poisoned(value: Any, said: Iterator[str], name: str = "") -> Any:
    """The same data, but every text in it is a payload."""
    if isinstance(value, dict):
        return {key: poisoned(one, said, key) for key, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one, said, "text" if name in ("rows", "columns") else name) for one in value]
    return next(said) if isinstance(value, str) and name in SAID else value


@dataclass
class Backend:
    """What the page asks, answered at once. `hostile` puts payloads into everything that is said."""

    hostile: bool = False
    looked: str = ""  # traces are of this text, whatever is asked
    url: str = ""
    asked: list[tuple[str, Any]] = field(default_factory=list)  # addresses and bodies

    def answer(self, path: str, body: Any) -> Any:
        said = itertools.cycle(PAYLOADS)
        found = self.plain(path, body)
        return poisoned(found, said) if self.hostile else found

    def plain(self, path: str, body: Any) -> Any:
        if path == "/v1/models":
            return [self.model(name, pair) for name, pair in self.offered()]
        if path == "/v1/translate":
            return {"translations": [said(text.upper()) for text in body["texts"]]}
        if path == "/v1/trace":
            return traced({**body, "q": self.looked or body["q"]})
        if path.startswith("/v1/training/"):
            return {"events": history()}
        return {"/detect": [{"language": "en", "confidence": 93.0}], "/frontend/settings": {"filesTranslation": True}}[
            path
        ]

    def offered(self) -> Iterator[tuple[str, tuple[str, str]]]:
        yield from (("toy", ("en", "de")), ("yot", ("de", "en")))
        if self.hostile:
            yield from ((payload, (payload, payload)) for payload in PAYLOADS)

    def model(self, name: str, pair: tuple[str, str]) -> dict[str, Any]:
        return {"id": name, "pairs": [{"source": pair[0], "target": pair[1]}], "parameters": 12345, "engine": name}


def said(text: str) -> dict[str, Any]:
    others = [{"text": f"{text}{mark}", "score": -2.0} for mark in "!?"]
    return {"text": text, "score": -1.0, "tokens": ["A"] * 9, "alternatives": others}


def history() -> list[dict[str, Any]]:
    steps = [{"event": "step", "step": n, "loss": 9 - n / 20, "lr": n / 1e5} for n in range(10, 101, 10)]
    sample = {"source": "a dog", "reference": "ein Hund", "output": "ein"}
    looked = {"rows": ["▁Ein", "</s>"], "columns": ["▁A", "</s>"], **pack(torch.eye(2))}
    scores = [
        {"event": "validate", "step": n, "loss": 5.0, "bleu": float(n), "sample": sample, "attention": looked}
        for n in (50, 100)
    ]
    return [*steps, *scores]


class Handler(BaseHTTPRequestHandler):
    """Files of the page with the real server's headers, and the backend's answers."""

    backend: Backend

    def do_GET(self) -> None:
        self.reply(None)

    def do_POST(self) -> None:
        self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def reply(self, body: Any) -> None:
        self.backend.asked.append((self.path, body))
        path = unquote(self.path)
        if path == "/" or path.startswith("/page/"):
            name = path.removeprefix("/page/").lstrip("/") or "index.html"
            self.send(200, KINDS[name.rpartition(".")[2]], page_files()[name])
            return
        try:
            self.send(200, "application/json", json.dumps(self.backend.answer(path, body)).encode())
        except UsageError as error:
            self.send(413, "application/problem+json", json.dumps({"detail": str(error)}).encode())

    def send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        for key, value in {**SAFE, "Content-Type": kind, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the page does not want it any more
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextlib.contextmanager
def serving() -> Iterator[Backend]:
    backend = Backend()
    handler = type("BackendHandler", (Handler,), {"backend": backend})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        backend.url = f"http://127.0.0.1:{server.server_address[1]}/"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield backend
        finally:
            server.shutdown()
            thread.join()


def browser_path() -> str | None:
    """Debian's Chromium, or Chrome."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def hostile_trace() -> dict[str, Any]:
    return poisoned(everything("two men sit"), itertools.cycle(PAYLOADS))
