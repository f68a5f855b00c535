"""Real servers: killed workers, stops, clients that are slow or leave, and the command that starts them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from headway import cli
from headway.serve.server import listening, server_of
from headway.serve.settings import Limits, Settings
from model_folders import TEXT, random_folder
from serving import PATIENCE, Running, local, running

OPTIONS = ("--engine", "torch", "--device", "cpu", "--deadline", "50")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("models") / "toy")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with running(folder, *OPTIONS) as found:
        yield found


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def measure(server: Running, *names: str) -> float:
    """The sum of measures, all of one moment."""
    text = httpx2.get(f"{server.url}/metrics", timeout=PATIENCE).text
    found = [re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE) for name in names]
    return sum(float(value) for values in found for value in values)


def post(server: Running, texts: list[str], client: httpx2.Client, **more: object) -> httpx2.Response:
    return client.post(f"{server.url}/v1/translate", json={"texts": texts, **more}, timeout=PATIENCE)


# ---------------------------------------------------------------- models behind the server


def test_the_server_says_what_the_translator_says(server: Running, folder: Path) -> None:
    from headway import Translator

    translator = Translator.load(folder, device="cpu", engine="torch")
    with httpx2.Client() as client:
        found = post(server, TEXT, client, n_best=2, beam=3, alignments=True, scores=True).json()
    expected = translator(TEXT, n_best=2, beam=3, alignments=True)
    assert (found["source"], found["target"], found["model"]) == ("en", "de", "toy")
    for answer, one in zip(found["translations"], expected, strict=True):
        assert answer["text"] == one.text and answer["tokens"] == one.tokens
        assert answer["score"] == pytest.approx(one.score, abs=1e-4)
        assert answer["confidence"] == pytest.approx(one.confidence, abs=1e-4)
        assert [tuple(link) for link in answer["alignment"]] == one.alignment
        assert [other["text"] for other in answer["alternatives"]] == [other.text for other in one.alternatives]


def test_a_stream_ends_with_the_greedy_translation(server: Running) -> None:
    with httpx2.Client() as client:
        stream = client.post(f"{server.url}/v1/stream", json={"text": TEXT[0]}, timeout=PATIENCE).text
        greedy = post(server, [TEXT[0]], client, beam=1).json()["translations"][0]["text"]
    texts = [json.loads(line[6:])["text"] for line in stream.splitlines() if line.startswith("data: ")]
    assert texts[-1] == greedy and len(texts) > 3
    assert [len(text) for text in texts] == sorted(map(len, texts))


def test_a_trace_and_its_limit(server: Running) -> None:
    with httpx2.Client() as client:
        whole = client.post(f"{server.url}/v1/trace", json={"q": TEXT[0], "include": ["attention"]}, timeout=PATIENCE)
        assert whole.status_code == 200
        assert whole.json()["source"]["text"] == TEXT[0] and whole.json()["model"]["name"] == "toy"
        long = client.post(f"{server.url}/v1/trace", json={"q": "word " * 500}, timeout=PATIENCE)
        assert long.status_code == 413 and "128" in long.json()["detail"]


# ---------------------------------------------------------------- deaths and stops


def test_killed_processes_are_not_noticed(server: Running) -> None:
    """Whichever process is at work is killed, again and again, while clients go on asking."""
    statuses: list[int] = []
    over = threading.Event()

    def ask_on(number: int) -> None:
        with httpx2.Client() as client:
            while not over.is_set():
                statuses.append(post(server, [TEXT[number % 3]], client, beam=2).status_code)

    with ThreadPoolExecutor(6) as pool:
        asking = [pool.submit(ask_on, number) for number in range(6)]
        try:
            for _ in range(5):
                answered = len(statuses)
                until(lambda: len(statuses) > answered + 6)  # noqa: B023
                os.kill(server.workers()[0], signal.SIGKILL)
            answered = len(statuses)
            until(lambda: len(statuses) > answered + 12)
        finally:
            over.set()
        for one in asking:
            one.result(PATIENCE)
    assert set(statuses) == {200}
    assert measure(server, "headway_restarts_total") == 5


def test_clients_that_leave_leave_nothing_behind(server: Running) -> None:
    address = urlsplit(server.url)
    body = json.dumps({"texts": [" ".join(TEXT)] * 5}).encode()
    request = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request += b"Content-Length: %d\r\n\r\n" % len(body) + body
    for _ in range(20):
        with socket.create_connection((address.hostname, address.port), PATIENCE) as connection:
            connection.sendall(request)
    until(lambda: measure(server, "headway_in_flight") == 1 and measure(server, "headway_waiting_work") == 0)
    with httpx2.Client() as client:
        assert post(server, TEXT, client).status_code == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_answers_everybody_and_ends_well(folder: Path, number: int) -> None:
    count = 20
    with running(folder, *OPTIONS, "--spares", 0) as server, ThreadPoolExecutor(count) as pool:
        (worker,) = server.workers()
        os.kill(worker, signal.SIGSTOP)  # so that nobody is answered yet

        def one(place: int) -> int:
            with httpx2.Client() as client:
                return post(server, [TEXT[place % 3]], client, beam=1).status_code

        replies = [pool.submit(one, place) for place in range(count)]
        until(lambda: measure(server, "headway_in_flight") == count + 1)
        server.process.send_signal(number)
        until(lambda: refused(server))
        os.kill(worker, signal.SIGCONT)
        assert [reply.result(PATIENCE) for reply in replies] == [200] * count
        assert server.process.wait(PATIENCE) == 0
        assert all(isinstance(json.loads(line), dict) for line in server.lines)


def refused(server: Running) -> bool:
    try:
        return httpx2.get(f"{server.url}/ready").status_code != 200
    except httpx2.TransportError:
        return True


def test_slow_clients_are_shown_out_and_disturb_nobody() -> None:
    async def slowly(port: int, sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        found = await asyncio.wait_for(reader.read(), PATIENCE)  # until the server closes it
        writer.close()
        await writer.wait_closed()
        return found

    async def run() -> None:
        settings = Settings((Path("toy"),), port=0, limits=Limits(receive=0.3))
        async with local(limits=settings.limits) as it:
            with listening(settings) as listener:
                server = server_of(it.service, settings)
                serving = asyncio.create_task(server.serve([listener]))
                port = listener.getsockname()[1]
                head = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\n"
                slow = [slowly(port, sent) for sent in (b"", b"POST", head, head + b"Content-Length: 9\r\n\r\n{")]
                quick = slowly(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                nothing, word, header, body, health = await asyncio.gather(*slow, quick)
                assert nothing == word == header == b""
                assert body.startswith(b"HTTP/1.1 408 ") and health.startswith(b"HTTP/1.1 200 ")
                too_large = await slowly(port, head + b"X: " + b"x" * 40_000 + b"\r\n\r\n")
                assert too_large.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
                server.should_exit = True
                await serving

    asyncio.run(run())


# ---------------------------------------------------------------- the command


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["headway", *map(str, words)])
    code = cli.run()
    said = capsys.readouterr()
    return code, said.out, said.err


def test_mistakes_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("headway.builtin.HERE", tmp_path / "nothing")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, said in (
            (["serve"], "name a model folder: this package comes without a model"),
            (["translate"], "name a model folder: this package comes without a model"),
            (["serve", tmp_path, "--host", "0.0.0.0"], "--make-key FILE"),
            (["serve", tmp_path, "--port", port], "cannot listen there"),
            (["serve", tmp_path, "--port", 70000], "port is 70000; it must be from 0 to 65535"),
            (["serve", tmp_path, "--key-file", tmp_path / "none"], "cannot be read"),
            (["serve", tmp_path, "--url-prefix", "x/"], "it begins with /"),
            (["serve", tmp_path, "--port", 0], "has no headway.json"),
        ):
            code, _, err = command(monkeypatch, capsys, *words)
            assert code == 2 and said in err and err.count("\n") == 1, (words, err)


def test_a_key_is_printed_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "keys"
    code, out, _ = command(monkeypatch, capsys, "serve", "--make-key", path)
    assert code == 0 and len(out.split()) == 1
    assert out.strip() not in path.read_text() and stat.S_IMODE(path.stat().st_mode) == 0o600
