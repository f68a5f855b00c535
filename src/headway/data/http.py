"""Download one file, resuming broken downloads in the same command or the next one.

Neither pooch nor httpx resumes with If-Range and strong ETags, bounds the size, and refuses redirects from https to
http; with httpx the same code would be left here, over another client than that of the standard library.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from headway.data.archives import PIECE
from headway.errors import RefusedError, UsageError
from headway.storage.files import check_space, disk_trouble, write_all
from headway.version import installed

PASSING = (408, 429, 500, 502, 503, 504)  # status codes that are retried

Tell = Callable[[int, int | None], None]  # progress callback: bytes so far, and total bytes if known


@dataclass(frozen=True)
class Patience:
    """Timeouts and retries."""

    timeout: float = 30.0  # seconds without a byte
    pauses: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0)  # seconds before each retry without progress


class BrokenError(Exception):
    """An attempt failed and may be retried; bytes received so far are kept."""


class UnreachableError(BrokenError):
    """The server did not answer."""


def download(url: str, part: Path, tell: Tell, patience: Patience, most: int) -> None:
    """Download or resume a file of at most `most` bytes to `part`; after a failure the bytes received are kept."""
    pauses, received = iter(patience.pauses), False
    while True:
        before = size(part)
        try:
            attempt(url, part, tell, patience.timeout, most)
            return
        except BrokenError as error:
            if size(part) > before:
                pauses, received = iter(patience.pauses), True
            pause = next(pauses, None)
            if pause is None or (isinstance(error, UnreachableError) and not received):
                raise UsageError(f"{url}: {error}{kept(part)}") from None
            time.sleep(pause)


def kept(part: Path) -> str:
    have = size(part)
    return f"; {have:,} bytes are kept; run the same command to resume" if have else ""


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def attempt(url: str, part: Path, tell: Tell, timeout: float, most: int) -> None:
    """Request and write the missing bytes once; BrokenError if the end was not reached."""
    try:
        with opened(url, wanted(part), timeout) as response:
            write_down(response, part, tell, most)
    except HTTPError as error:
        with error:
            if error.code != 416:
                raise refusal(url, error) from None
            settle(part, error.headers)


def write_down(response: HTTPResponse, part: Path, tell: Tell, most: int) -> None:
    have = first_byte(response, size(part))
    total = None if response.length is None else have + response.length
    check_size(response.url, part, total or have, most)
    check_space(part.parent, response.length or 0)
    with ExitStack() as stack:
        with disk_trouble(part, total or 0):
            mark(part).write_text(validator(response.headers), encoding="ascii", errors="ignore")
            file = stack.enter_context(part.open("r+b" if have else "wb", buffering=0))
            file.truncate(have)
            file.seek(have)
        for piece in iter(lambda: received(response), b""):
            check_size(response.url, part, have + len(piece), most)
            with disk_trouble(part, total or 0):
                write_all(file, piece)
            have += len(piece)
            tell(have, total)
        if total is not None and have < total:
            raise BrokenError(f"the connection was cut after {have:,} of {total:,} bytes")


def check_size(url: str, part: Path, total: int, most: int) -> None:
    """Raise RefusedError and remove the file if it is larger than `most` bytes."""
    if total > most:
        forget(part)
        raise RefusedError(f"{url}: the server sends more than {most:,} bytes, the limit in the catalogue")


# ---------------------------------------------------------------- resuming


def mark(part: Path) -> Path:
    """Return the path of a file with the server's validator: only the same version is resumed."""
    return part.with_name(f"{part.name}.version")


def wanted(part: Path) -> dict[str, str]:
    """Return request headers for the rest, or for everything if the file has changed; empty without a validator."""
    version = mark(part).read_text(encoding="ascii") if mark(part).exists() else ""
    return {"Range": f"bytes={size(part)}-", "If-Range": version} if version and size(part) else {}


def validator(headers: Message) -> str:
    """Return the strong ETag or Last-Modified, else "": a weak ETag does not guarantee equal bytes (RFC 9110)."""
    tag = headers.get("ETag") or headers.get("Last-Modified", "")
    return "" if tag.startswith("W/") else tag


def first_byte(response: HTTPResponse, have: int) -> int:
    """Return the offset at which the response begins: `have` for a partial response, else 0."""
    if response.status != 206:
        return 0
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if found is None or int(found[1]) != have:
        raise UsageError(f"{response.url}: the server sent another part than was requested")
    return have


def settle(part: Path, headers: Message) -> None:
    """Handle status 416: return if the file is complete, else remove it and raise BrokenError."""
    if headers.get("Content-Range", "") != f"bytes */{size(part)}":
        forget(part)
        raise BrokenError("the file on the server has changed")


def forget(part: Path) -> None:
    for path in (part, mark(part)):
        path.unlink(missing_ok=True)


# ---------------------------------------------------------------- connection


class Straight(HTTPRedirectHandler):
    """Follows redirects, but refuses those from https to http."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if req.type == "https" and not newurl.startswith("https://"):
            fp.close()
            raise UsageError(f"{req.full_url}: redirects to {newurl}, which is not https; it was not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opened(url: str, headers: dict[str, str], timeout: float) -> HTTPResponse:
    request = Request(url, headers={"User-Agent": f"headway/{installed('headway')}", **headers})
    try:
        response = build_opener(Straight).open(request, timeout=timeout)
    except HTTPError:
        raise
    except TimeoutError:
        raise UnreachableError(f"no answer within {timeout:g} seconds") from None
    except URLError as error:
        raise UnreachableError(f"cannot be reached ({reason_of(error)}): check the network") from None
    except (OSError, HTTPException) as error:
        raise BrokenError(f"the connection broke ({reason_of(error)})") from None
    if response.headers.get_content_type() == "text/html":
        response.close()
        raise UsageError(f"{url}: the server answers with a web page instead of the file; it may have moved")
    return response


def reason_of(error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__


def refusal(url: str, error: HTTPError) -> Exception:
    if error.code in PASSING:
        return BrokenError(f"the server answers {error.code} {error.reason}")
    return UsageError(f"{url}: the server answers {error.code} {error.reason}; see `headway data list` for its page")


def received(response: HTTPResponse) -> bytes:
    try:
        return response.read(PIECE)
    except TimeoutError:
        raise BrokenError("no more bytes came") from None
    except (OSError, HTTPException) as error:
        raise BrokenError(f"the connection broke ({reason_of(error)})") from None
