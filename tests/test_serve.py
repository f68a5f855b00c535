"""What the server says to every kind of request: limits, keys, secrets, logs, paths. No model is needed for that."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from headway.errors import UsageError
from headway.serve.keys import Keys, make_key
from headway.serve.models import MODEL_ID, model_ids
from headway.serve.settings import Limits, Settings
from headway.serve.training_curves import MOST, read
from serving import Local, Reply, ask, local

Check = Callable[[Local], Coroutine[Any, Any, None]]


def with_server(check: Check, **settings: Any) -> None:
    async def run() -> None:
        async with local(**settings) as server:
            await check(server)

    asyncio.run(run())


def replies(requests: list[tuple[Any, ...]], **settings: Any) -> list[Reply]:
    """The replies to requests, each as the arguments of `ask`."""
    found: list[Reply] = []

    async def check(server: Local) -> None:
        for request in requests:
            found.append(await ask(server.app, *request))

    with_server(check, **settings)
    return found


# ---------------------------------------------------------------- requests


def test_translations_come_in_order_and_blank_stays_blank() -> None:
    (reply,) = replies([("POST", "/v1/translate", {"texts": ["one", "", " ", "two"]})])
    assert reply.status == 200
    assert [one["text"] for one in reply.json()["translations"]] == ["ONE", "", " ", "TWO"]


def test_predictions_come_in_order_under_the_limits_of_translations() -> None:
    given = [{"texts": ["one", "two"]}, {"texts": ["x"] * 51}, {"texts": ["x" * 5001]}, {"texts": ["x"], "beam": 5}]
    first, *others = replies([("POST", "/v1/predict", body) for body in given])
    assert first.json() == {
        "model": "toy", "task": "translation", "predictions": [{"text": "ONE"}, {"text": "TWO"}],
    }  # fmt: skip
    assert [(reply.status, reply.headers["content-type"]) for reply in others] == [
        (400, "application/problem+json")
    ] * 3


TRANSLATE, TRACE = {"texts": ["x"]}, {"q": "x"}
NUMBERS = [
    *(("/v1/translate", TRANSLATE, name, highest) for name, highest in (("beam", 10), ("n_best", 10))),
    *(
        ("/v1/trace", TRACE, name, highest)
        for name, highest in (("beam_size", 10), ("top_k", 20), ("alpha", 2), ("hypothesis", 9), ("position", 128))
    ),
]
WRONG = ["1000000000", "-2", "NaN", "Infinity", '"5"', "1e309", "[]", "{}", "true", "1.5", "9" * 5000]


@pytest.mark.parametrize(("path", "body", "name", "highest"), NUMBERS)
def test_numbers_are_capped_before_work(path: str, body: dict[str, Any], name: str, highest: int) -> None:
    values = [value for value in (str(highest + 1), *WRONG) if not (name == "alpha" and value == "1.5")]
    bodies = [f'{json.dumps(body)[:-1]}, "{name}": {value}}}'.encode() for value in values]
    for value, reply in zip(values, replies([("POST", path, body) for body in bodies]), strict=True):
        assert reply.status == 400, value[:20]
        assert reply.headers["content-type"] == "application/problem+json"


MALFORMED = [
    b"", b"{", b"null", b"5", b'"x"', b"[]", b"{}", b"\xff\xfe", b"\x00" * 100, b'{"texts": ["x"]',
    b"[" * 100_000, b'{"a":' * 50_000, b'{"texts": "x"}', b'{"texts": [5]}', b'{"texts": []}', b'{"texts": [null]}',
    b'{"texts": ["x"], "unknown": 1}', b'{"texts": ["x"], "beam": NaN}', b'{"texts": ["x"], "glossary": [[]]}',
    b'{"texts": ["x"], "glossary": [["a", "b", "c"]]}', b'{"texts": ["x"], "model": "../../etc"}',
    b'{"texts": ["x"], "source": "zz"}', b'{"texts": ["x"], "model": 5}', b'{"texts": ["x"], "scores": "yes"}',
    json.dumps({"texts": ["x"] * 51}).encode(), json.dumps({"texts": ["x" * 5001]}).encode(),
    json.dumps({"texts": ["x"], "glossary": [["a", "b"]] * 51}).encode(),
    b'{"texts": [' + b"[" * 40 + b"]" * 40 + b"]}",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data; boundary=x", "nonsense"])
def test_malformed_bodies_are_told_apart_from_faults(kind: str) -> None:
    routes = ("/v1/translate", "/v1/trace", "/v1/stream")
    requests = [("POST", path, body, {"content-type": kind}) for path in routes for body in MALFORMED]
    for request, reply in zip(requests, replies(requests), strict=True):
        assert reply.status == 400, request[:3]
        assert set(reply.json()) == {"type", "title", "status", "detail"}


def test_bodies_are_limited_whether_their_length_is_told_or_not() -> None:
    async def check(server: Local) -> None:
        part = b"x" * 300_000
        reply = await ask(server.app, "POST", "/v1/translate", parts=[part] * 4)
        assert reply.status == 413 and reply.headers["connection"] == "close"
        endless = [part] * 40
        refused = await ask(server.app, "POST", "/v1/translate", parts=endless)
        assert refused.status == 413 and refused.unread >= 10  # it was not read to its end
        crowded = await ask(server.app, "POST", "/v1/translate", parts=[b"x" * 1000])
        assert crowded.status == 400
        server.service.limits.__dict__["buffered"] = 10  # frozen, but nobody looks
        assert (await ask(server.app, "POST", "/v1/translate", parts=[b"x" * 1000])).status == 429

    with_server(check, limits=Limits())


def test_a_slow_body_is_given_up() -> None:
    async def check(server: Local) -> None:
        reply = await ask(server.app, "POST", "/v1/translate", parts=[])
        assert reply.status == 408

    with_server(check, limits=Limits(receive=0.05))


def test_problems_speak_the_language_of_the_interface() -> None:
    ours, deepl, libre = replies([("GET", "/v1/none"), ("GET", "/v2/none"), ("GET", "/none")])
    assert ours.json()["status"] == 404 and set(deepl.json()) == {"message"} and set(libre.json()) == {"error"}


def test_every_answer_has_safe_headers_and_the_listing_asks_nobody() -> None:
    for reply in replies(
        [("GET", "/"), ("GET", "/none"), ("GET", "/docs"), ("GET", "/health"), ("POST", "/v1/trace", {})]
    ):
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
    (docs,) = replies([("GET", "/docs")])
    assert b"/v1/translate" in docs.body and not re.search(rb'(?:src|href)="(?:https?:)?//', docs.body)


def test_a_prefix_and_another_origin() -> None:
    told = {"url_prefix": "/mt", "cors_origins": ("https://a.example",)}
    inside, outside, cors, strange = replies(
        [
            ("GET", "/mt/v1/models"),
            ("GET", "/v1/models"),
            ("GET", "/mt/health", None, {"origin": "https://a.example"}),
            ("GET", "/mt/health", None, {"origin": "https://b.example"}),
        ],
        **told,
    )
    assert inside.status == 200 and outside.status == 404
    assert cors.headers["access-control-allow-origin"] == "https://a.example"
    assert "access-control-allow-origin" not in strange.headers


# ---------------------------------------------------------------- keys and secrets


@pytest.fixture
def key_file(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "keys"
    make_key(path)
    return path, make_key(path)


def test_a_key_is_kept_as_a_hash_that_only_its_owner_reads(key_file: tuple[Path, str]) -> None:
    path, key = key_file
    assert key not in path.read_text() and len(key) >= 43
    assert path.stat().st_mode & 0o777 == 0o600
    keys = Keys.read(path)
    assert len(keys.hashes) == 2
    keys.check(key)


FILE = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n'
    b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
    b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n--x--\r\n'
)
EN_DE = {"source": "en", "target": "de"}
DICTIONARY = {"source_lang": "en", "target_lang": "de", "entries": "dog\tHund", "entries_format": "tsv"}
NOBODYS = "96ab91fd-e715-41a1-adeb-5d701f84a483"  # the id of no glossary and of no document
VALID: dict[tuple[str, str], tuple[Any, dict[str, str]]] = {  # what every route answers to whoever has a key
    ("POST", "/"): ({"q": "hello"}, {}),
    ("POST", "/translate"): ({"q": "hello", **EN_DE}, {}),
    ("POST", "/detect"): ({"q": "hello"}, {}),
    ("POST", "/suggest"): ({"q": "hello", "s": "hallo", **EN_DE}, {}),
    ("POST", "/translate_file"): (FILE, {"content-type": "multipart/form-data; boundary=x"}),
    ("POST", "/v1/translate"): ({"texts": ["hello"]}, {}),
    ("POST", "/v1/predict"): ({"texts": ["hello"]}, {}),
    ("POST", "/v1/stream"): ({"text": "hello"}, {}),
    ("POST", "/v1/trace"): ({"q": "hello"}, {}),
    ("POST", "/v2/translate"): ({"text": ["hello"], "target_lang": "DE"}, {}),
    ("POST", "/v2/document"): (
        FILE.replace(b"target", b"target_lang"),
        {"content-type": "multipart/form-data; boundary=x"},
    ),
    ("POST", "/v2/document/{document_id}"): ({"document_key": "x"}, {}),
    ("POST", "/v2/document/{document_id}/result"): ({"document_key": "x"}, {}),
    ("POST", "/v2/glossaries"): ({"name": "x", **DICTIONARY}, {}),
    ("POST", "/v3/glossaries"): ({"name": "x", "dictionaries": [DICTIONARY]}, {}),
    ("PUT", "/v3/glossaries/{glossary_id}/dictionaries"): (DICTIONARY, {}),
    ("PATCH", "/v3/glossaries/{glossary_id}"): ({"name": "y"}, {}),
}
MADE = {("POST", f"/v{version}/glossaries"): 201 for version in (2, 3)}
ANSWERS = {("GET", "/nowhere"): 404, ("POST", "/suggest"): 403, **MADE}  # all others answer 200


def test_with_a_key_every_route_needs_it_but_the_few_that_tell_nothing(key_file: tuple[Path, str]) -> None:
    path, key = key_file

    async def check(server: Local) -> None:
        known = {"authorization": f"Bearer {key}"}
        schema = (await ask(server.app, "GET", "/openapi.json", None, known)).json()
        routes = [(method.upper(), route) for route, acts in schema["paths"].items() for method in acts]
        assert {route for route in routes if route[0] not in ("GET", "DELETE")} == VALID.keys()
        for method, route in [*routes, ("GET", "/docs"), ("GET", "/openapi.json"), ("GET", "/nowhere")]:
            name = re.sub(r"\{(document|glossary)_id\}", NOBODYS, route.replace("{model}", "toy"))
            name = re.sub(r"[{}]", "", name) + "?source_lang=en&target_lang=de" * (method != "POST" and "/v3" in route)
            body, headers = VALID.get((method, route), (None, {}))
            locked = (await ask(server.app, method, name, body, headers)).status
            if route in ("/health", "/ready", "/languages", "/frontend/settings"):
                assert locked == 200, route
            elif not route.startswith("/download_file"):
                assert locked == 401, (method, route)
                let_in = (await ask(server.app, method, name, body, {**headers, **known})).status
                wanted = 404 if NOBODYS in name else ANSWERS.get((method, route), 200)
                assert let_in == wanted, (method, route)
        for shown in (f"Bearer {key}", f"DeepL-Auth-Key {key}"):
            assert (await ask(server.app, "GET", "/v1/models", None, {"authorization": shown})).status == 200
        assert (await ask(server.app, "GET", f"/v1/models?api_key={key}")).status == 200
        assert (await ask(server.app, "GET", "/v1/models")).status == 401
        assert (await ask(server.app, "GET", f"/v1/models?{'a=1&' * 200}")).status in (400, 401)
        for wrong in (key[:-1], key + "x", "x" * 10_000, "é\udc80"):
            shown = {"authorization": f"Bearer {wrong}".encode("utf-8", "replace").decode("latin-1")}
            assert (await ask(server.app, "GET", "/v1/models", None, shown)).status == 403
        assert (await ask(server.app, "GET", "/")).status == 200

    with_server(check, key_file=path)


def test_the_key_is_nowhere_to_be_found(key_file: tuple[Path, str]) -> None:
    path, key = key_file

    async def check(server: Local) -> None:
        bodies = [{"api_key": key}, {"q": key, "api_key": key}, {key: key}, {"texts": [key], key: 1}, [key], key]
        paths = [
            "/translate",
            "/v1/translate",
            "/v1/trace",
            "/detect",
            f"/{key}",
            f"/v1/training/{key}",
            f"/page/{key}",
        ]
        seen = []
        for name in paths:
            for body in bodies:
                for header in ({}, {"authorization": f"Bearer {key}"}, {"content-type": "text/plain"}):
                    seen.append(await ask(server.app, "POST", f"{name}?api_key={key}", body, header))
                    seen.append(await ask(server.app, "GET", f"{name}?api_key={key}", None, header))
        seen.append(await ask(server.app, "GET", "/metrics", None, {"authorization": f"Bearer {key}"}))
        assert seen[-1].status == 200
        told = b"".join(reply.body for reply in seen if reply.status != 200) + seen[-1].body
        assert key.encode() not in told
        assert key not in server.log.getvalue()

    with_server(check, key_file=path)


def test_others_are_only_let_in_with_a_key(tmp_path: Path) -> None:
    folder = (tmp_path,)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(UsageError, match="--make-key FILE"):
            Settings(folder, host=host)
        Settings(folder, host=host, insecure=True)
        Settings(folder, host=host, key_file=tmp_path / "keys")
    for host in ("127.0.0.1", "::1", "localhost", "127.5.5.5"):
        Settings(folder, host=host)
    (tmp_path / "keys").write_text("not a hash\n")
    with pytest.raises(UsageError, match="one hash a line"):
        Keys.read(tmp_path / "keys")


# ---------------------------------------------------------------- logs


def test_one_request_is_one_record_whatever_it_holds() -> None:
    evil = 'x\n{"level": "fake"}\r\n\x1b[31m\u2028\u0000\ud800'

    async def check(server: Local) -> None:
        requests = [
            ("POST", "/v1/translate", {"texts": [evil]}, {}),
            ("POST", "/v1/translate", {"texts": ["x"], evil: 1}, {}),
            ("POST", "/v1/translate", {"texts": ["x"], "model": evil}, {}),
            ("G\nET", f"/{evil}".encode("utf-8", "replace").decode(), None, {}),
            ("GET", "/v1/training/a\nb", None, {"user-agent": "a\nb", "referer": "\x1b[31m"}),
        ]
        for method, path, body, headers in requests:
            await ask(server.app, method, path, body, headers)
        lines = server.log.getvalue().split("\n")
        assert len(lines) == len(requests) + 1 and lines[-1] == ""
        assert all(line.isascii() and line.isprintable() for line in lines)
        assert {record["level"] for record in server.records()} == {"info"}
        assert all("text" not in record for record in server.records())

    with_server(check)


def test_texts_are_logged_only_when_asked_for() -> None:
    async def check(server: Local) -> None:
        await ask(server.app, "POST", "/v1/translate", {"texts": ["secret\n"]})
        assert [record["text"] for record in server.records()] == [["secret\n"]]

    with_server(check, log_text=True)


def test_a_fault_tells_its_kind_and_place_and_nothing_more() -> None:
    async def check(server: Local) -> None:
        server.service.models["toy"] = None  # pyright: ignore[reportArgumentType]
        reply = await ask(server.app, "GET", "/v1/models")
        assert reply.status == 500 and reply.json()["detail"] == "a fault of the server; it has been noted"
        fault, answer = server.records()
        assert re.fullmatch(r"\w+Error in [\w.]+\.py:\d+", fault["fault"]) and fault["id"] == answer["id"]

    with_server(check)


# ---------------------------------------------------------------- names and paths

CLIMBS = [
    "../", "..\\", "..%2f", "%2e%2e/", "%2e%2e%2f", "%252e%252e%252f", "..%5c", "%c0%ae%c0%ae/", "..;/", "....//",
    "/", "//", "\\\\host\\share\\", "file:///", "C:\\", "~/", "./", "\x00", "%00", "toy/../",
]  # fmt: skip
NAMES = [climb * times + goal for climb in CLIMBS for times, goal in ((1, "etc/passwd"), (8, "etc/passwd"), (1, "toy"))]


def test_no_name_in_a_request_becomes_a_path() -> None:
    opened: list[str] = []
    watching = False
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if watching and event == "open" else None)

    async def check(server: Local) -> None:
        nonlocal watching
        for name in ("warm", "up"):  # what is imported late
            await ask(server.app, "GET", f"/v1/training/{name}")
            await ask(server.app, "POST", "/v1/translate", {"texts": ["x"], "model": name})
        watching = True
        for name in NAMES:
            for route in ("/v1/training/", "/page/", "/"):
                for path in (route + name, route + quote(name, safe="")):
                    assert (await ask(server.app, "GET", path)).status in (200, 404), path
            for body in ({"texts": ["x"], "model": name}, {"texts": ["x"], "source": name}):
                assert (await ask(server.app, "POST", "/v1/translate", body)).status == 400
        watching = False

    assert len(NAMES) == 60
    with_server(check)
    assert [path for path in opened if not path.endswith(".py")] == []  # a library looks up our own lines


@pytest.mark.parametrize("name", ["En De", "ÄÖ", "a" * 100, ".hidden", "-x", "m30k_en-de", "模型"])
def test_ids_are_made_from_names_of_folders(tmp_path: Path, name: str) -> None:
    assert all(MODEL_ID.fullmatch(found) for found in model_ids([tmp_path / name]))


def test_two_models_need_two_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="both be called 'a'"):
        model_ids([tmp_path / "x" / "a", tmp_path / "y" / "A"])


# ---------------------------------------------------------------- training curves


def test_a_long_log_is_thinned_and_keeps_its_ends(tmp_path: Path) -> None:
    lines = [json.dumps({"event": "step", "step": step}) for step in range(5 * MOST)]
    lines[10:10] = [json.dumps({"event": "plan", "step": 0}), "[]", '{"event": 5}']
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join([*lines, '{"event": "st']), encoding="utf-8")
    found = read(path)
    steps = [event["step"] for event in found if event["event"] == "step"]
    assert len(steps) == MOST and steps == sorted(steps) and steps[-1] == 5 * MOST - 1
    assert sum(event["event"] == "plan" for event in found) == 1


ODD = [
    '{"event": "step", "deep": ' + "[" * 20_000 + "]" * 20_000 + "}",
    '{"event": "step", "deep": ' + "[" * 100 + "]" * 100 + "}",
    '{"event": "step", "text": "\\ud800"}',
    '{"event": "step", "number": ' + "9" * 5000 + "}",
    '{"event": ["step"]}',
    '"event"',
]


def test_odd_lines_of_a_log_are_left_out_and_places_are_not_told(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    folder.mkdir()
    right = {"event": "plan", "data": str(tmp_path / "a.en"), "notes": [f"saved in {tmp_path}/run/step-5 (3 MB)"]}
    kept = [json.dumps(right), '{"event": "step", "loss": NaN, "lr": 1e999, "text": "</s> 1/2 and/or x/y"}']
    (folder / "metrics.jsonl").write_text("\n".join([*ODD, *kept]), encoding="utf-8")
    (reply,) = replies([("GET", "/v1/training/toy")], folders=(folder,), facts={"folder": str(folder)})
    assert reply.status == 200 and str(tmp_path).encode() not in reply.body
    assert reply.json()["events"] == [
        {"event": "plan", "data": "a.en", "notes": ["saved in step-5 (3 MB)"]},
        {"event": "step", "loss": None, "lr": None, "text": "</s> 1/2 and/or x/y"},
    ]
    assert read(tmp_path / "absent") == []
