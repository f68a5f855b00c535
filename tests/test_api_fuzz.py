"""Requests that nobody should send: every one gets an answer that says what is wrong, and the server lives on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from requests.adapters import HTTPAdapter
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance
from urllib3 import HTTPResponse

from headway.serve.problems import NO_ROOM
from server_client import Asked, asking
from serving import FakeWorker, Reply

CHECKS = [not_a_server_error, response_schema_conformance, content_type_conformance]
EN_DE = {"source": "en", "target": "de"}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    with asking(FakeWorker) as asked:
        yield asked


# ---------------------------------------------------------------- from the description of the interface


class Inside(HTTPAdapter):
    """Requests that never leave this process."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.asked = asked

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        body = request.body.encode() if isinstance(request.body, str) else request.body or b""
        reply = self.asked(request.method, request.path_url, body, {str(k): v for k, v in request.headers.items()})
        made = HTTPResponse(BytesIO(reply.body), reply.headers, reply.status, preload_content=False)
        return self.build_response(request, made)


def with_languages(case: Case) -> Case:
    """Languages out of thin air are all refused; with real ones a request gets further."""
    if isinstance(case.body, dict):
        known = {"source": "en", "target": "de", "source_lang": "EN", "target_lang": "DE"}
        case.body |= {name: code for name, code in known.items() if name in case.body}
    return case


def fuzz(asked: Asked, examples: int) -> int:
    """So many requests for each operation, right ones and wrong ones; how many there were."""
    description = schemathesis.openapi.from_dict(asked("GET", "/openapi.json").json())
    count = 0
    with requests.Session() as session:
        session.mount("http://", Inside(asked))
        for result in description.get_all_operations():
            operation = result.ok()
            strategy = operation.as_strategy().map(with_languages)
            if operation.body or operation.query:
                strategy |= operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

            @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
            @given(strategy)
            def try_out(case: Case) -> None:
                nonlocal count
                count += 1
                case.call_and_validate(session=session, base_url="http://here", checks=CHECKS)

            try_out()
    return count


def test_a_thousand_requests(asked: Asked) -> None:
    assert fuzz(asked, 95) >= 1000


@pytest.mark.slow
def test_ten_thousand_requests(asked: Asked) -> None:
    assert fuzz(asked, 950) >= 10_000


# ---------------------------------------------------------------- field by field

RIGHT = {
    "/translate": {"q": "hello", "source": "en", "target": "de", "format": "text", "alternatives": 1},
    "/detect": {"q": "hello"},
    "/v2/translate": {"text": ["hello"], "target_lang": "DE", "source_lang": "EN", "tag_handling": "html"},
}
NEEDED = {"/translate": ["q", "source", "target"], "/detect": ["q"], "/v2/translate": ["text", "target_lang"]}
WRONG = {
    "q": [None, 5, 1.5, True, {}, {"a": 1}, [5], [None], [["a"]], "x" * 5001, ["x"] * 51, ["", "x" * 5001], "a\ud800"],
    "source": [None, 5, [], {}, ["en"], "", "zz", "x" * 65, "../en", "\ud800", "en\0", "auto-auto"],
    "target": [None, 5, [], {}, ["de"], "", "zz", "x" * 65, "auto", "\ud800", "<b>"],
    "format": [None, 5, [], {}, "", "pdf", "HTML ", "markdown"],
    "alternatives": [None, "x", [], {}, -1, 6, 10**9, 10**400, 1.5, "1e309", "", "6"],
    "text": [None, 5, {}, [5], [None], ["x"] * 51, "x" * 5001, ["\ud800"]],
    "target_lang": [None, 5, "", "ZZ", "x" * 65, "AUTO"],
    "source_lang": [5, [], "", "ZZ"],
    "tag_handling": [5, "", "json"],
}  # fmt: skip


@pytest.mark.parametrize("value", [5, 1.5, True, [], {}, ["x"], {"a": 1}])
@pytest.mark.parametrize("path", ["/", "/translate", "/detect", "/suggest"])
def test_a_key_that_is_no_text(asked: Asked, path: str, value: object) -> None:
    """Also where no key is needed."""
    body = {"q": "hello", "s": "hallo", "source": "en", "target": "de", "api_key": value}
    assert asked("POST", path, body).status == 400


@pytest.mark.parametrize("text", ["a\ud800", "\udfff", "x" * 5001, 5, None, ["x"]])
def test_the_form_without_scripts_answers_odd_texts_with_a_page(asked: Asked, text: object) -> None:
    reply = asked("POST", "/", {"q": text})
    assert reply.status == 400 and reply.headers["content-type"].startswith("text/html")
    assert "Invalid request" in reply.body.decode()


def test_a_full_disk_is_no_fault(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files wait on the disk while their form is read; translated ones until they are fetched."""

    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    rest = [f'\r\n--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{code}' for name, code in EN_DE.items()]
    kind = {"content-type": "multipart/form-data; boundary=x"}
    for data, name in (
        (b"hello", "headway.storage.temporary.tempfile.mkdtemp"),
        (b"x" * 2_000_000, "tempfile.TemporaryFile"),
    ):
        with monkeypatch.context() as disk:
            disk.setattr(name, full)
            reply = asked("POST", "/translate_file", head + data + "".join(rest).encode() + b"\r\n--x--\r\n", kind)
        assert reply.status == 507 and reply.json() == {"error": NO_ROOM}


def is_refused(reply: Reply) -> bool:
    """A 4xx, told in JSON, of one short line."""
    told = reply.json()
    (message,) = told.values()
    return 400 <= reply.status < 500 and 0 < len(message) < 400 and "\n" not in message


@pytest.mark.parametrize("path", RIGHT)
def test_every_field_missing_or_wrong(asked: Asked, path: str) -> None:
    assert asked("POST", path, RIGHT[path]).status == 200
    for name in RIGHT[path]:
        rest = {key: value for key, value in RIGHT[path].items() if key != name}
        reply = asked("POST", path, rest)
        assert is_refused(reply) if name in NEEDED[path] else reply.status == 200, name
        for value in WRONG[name]:
            assert is_refused(asked("POST", path, {**rest, name: value})), (name, value)


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e309", "-1", "6", "1" + "0" * 5000, "0.5"]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_are_none(asked: Asked, number: str) -> None:
    body = f'{{"q": "a", "source": "en", "target": "de", "alternatives": {number}}}'.encode()
    begun = time.monotonic()
    assert is_refused(asked("POST", "/translate", body))
    assert time.monotonic() - begun < 1


TORN = [
    b"{",
    b"[",
    b'{"q": ',
    b"nul",
    b'"text"',
    b"[]",
    b"5",
    b"null",
    b'{"q": "\xff"}',
    b"[" * 5000,
    b'{"a":' * 5000,
    b"\xff\xfe{\0",
]


@pytest.mark.parametrize("body", TORN)
def test_torn_json(asked: Asked, body: bytes) -> None:
    for path in RIGHT:
        assert is_refused(asked("POST", path, body))


FORMS = {
    "application/x-www-form-urlencoded": [b"q=%FF&source=en&target=de", b"&" * 500, b"q=a;source=en", b"=", b"\xff"],
    "multipart/form-data": [b"q=a"],
    "multipart/form-data; boundary=x": [
        b"--x", b"--x\r\n\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--",
        b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nnever ends', b"no boundary at all", b"--x--",
        b'--x\r\nContent-Disposition: form-data; name="q"; filename="a"\r\n\r\nb\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n' * 300 + b"--x--",
        b'--x\r\nContent-Disposition: form-data; name="q"\r\nContent-Type: text/plain; charset=nope\r\n\r\nb\r\n--x--',
    ],
    "text/plain": [b"hello"],
    "application/octet-stream": [b"\0\1\2"],
    "application/json; charset=utf-16": [b"hello"],
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMS)
def test_torn_forms(asked: Asked, kind: str) -> None:
    for path in ("/translate", "/translate_file"):
        for body in FORMS[kind]:
            assert is_refused(asked("POST", path, body, {"content-type": kind})), body


def test_torn_addresses(asked: Asked) -> None:
    for query in ("q=%FF", "&" * 500, "%", "q[]=a", "source=en&target=de", "q=a&q=b&source=zz&target=de"):
        assert is_refused(asked("POST", f"/translate?{query}"))


def test_other_methods_and_pages(asked: Asked) -> None:
    for method, path in (
        ("GET", "/translate"),
        ("PUT", "/translate"),
        ("DELETE", "/languages"),
        ("GET", "/v2/nothing"),
    ):
        assert is_refused(asked(method, path))


def test_an_error_never_repeats_a_text(asked: Asked) -> None:
    """A page that shows an error must not show what a stranger wrote."""
    for field in ("source", "target", "format", "alternatives"):
        evil = "<img src=x onerror=alert(1)>"
        reply = asked("POST", "/translate", {**RIGHT["/translate"], field: evil})
        assert reply.headers["content-type"] == "application/json" and evil.encode() not in reply.body
