"""What a client is told when a request cannot be answered: one sentence, never the text of an unexpected error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

from headway.serve.logs import printable

DEEPEST_JSON = 32  # brackets within brackets
NO_ROOM = "the server has no room for a file now; come back later"


class Problem(Exception):
    """A request that cannot be answered, and what its sender may know about it."""

    def __init__(self, status: int, detail: str, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after = status, printable(detail), retry_after

    @property
    def headers(self) -> dict[str, str]:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return headers | ({"WWW-Authenticate": "Bearer"} if self.status == HTTPStatus.UNAUTHORIZED else {})


def too_late(seconds: float, wait: int = 1) -> Problem:
    return Problem(429, f"not done within {seconds:g} seconds; send less or come later", wait)


class ProblemDocument(JSONResponse):
    """RFC 9457."""

    media_type = "application/problem+json"


def problem_response(problem: Problem, path: str) -> Response:
    """The answer in the form of the interface: /v1 is ours, /v2 and /v3 are DeepL's, the rest is LibreTranslate's."""
    if path.startswith("/v1/"):
        title = HTTPStatus(problem.status).phrase
        document = {"type": "about:blank", "title": title, "status": problem.status, "detail": problem.detail}
        return ProblemDocument(document, problem.status, problem.headers)
    name = "message" if path.startswith(("/v2/", "/v3/")) else "error"
    return JSONResponse({name: problem.detail}, problem.status, problem.headers)


def parse_json(body: bytes) -> Any:
    """Strict JSON of a modest depth; a Problem otherwise."""
    try:
        found = json.loads(body, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise Problem(400, "Invalid JSON: the body cannot be read") from None
    if too_deep(found, DEEPEST_JSON):
        raise Problem(400, f"Invalid JSON: brackets go deeper than {DEEPEST_JSON}")
    return found


def no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def too_deep(value: Any, left: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return left == 0 or any(too_deep(one, left - 1) for one in inner)


def validation_problem(errors: Sequence[Any]) -> Problem:
    """From pydantic's list of errors: where and what is expected; nothing of what was given, no name of its own."""
    first = errors[0]
    names = [str(part) for part in first["loc"] if part != "body"]
    names = names[:-1] if first["type"] == "extra_forbidden" else names
    return Problem(400, f"Invalid request: {'.'.join(names) or 'body'}: {first['msg']}"[:300])
