"""The log never holds up the server, and the pool of model processes tells what ails it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headway.errors import HeadwayError, UsageError
from headway.serve import pool
from headway.serve.logs import MOST_A_SECOND, Log, Printed, Sparse, Unblocking, printable
from headway.serve.process import Died, ModelProcess
from model_folders import TEXT, random_folder
from serving import PATIENCE, FakeWorker, Local, ask, children, local, program

OPTIONS = ("--engine", "torch", "--device", "cpu", "--port", "0", "--deadline", "60")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("models") / "toy")


# ---------------------------------------------------------------- the log


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for file in (reader, writer):
        try:
            os.close(file)
        except OSError:
            continue


def test_lines_come_out_in_order(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    with closing(Unblocking(writer)) as sink:
        for number in range(100):
            Log(sink).write("info", number=number)
    text = os.read(reader, 1 << 16).decode()
    assert [json.loads(line)["number"] for line in text.splitlines()] == list(range(100))


def test_a_reader_that_stands_still_costs_lines_and_no_time(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    sink = Unblocking(writer, most=100_000)
    log, begun = Log(sink), time.monotonic()
    for _ in range(3000):
        log.write("info", event="x" * 100)
    assert time.monotonic() - begun < 5 and sink.held <= 100_000
    assert (lost := log.dropped) > 1000
    found = b""
    while b"dropped" not in found:  # the reader goes on: everything that was kept arrives, and the count of the rest
        found += os.read(reader, 1 << 16)
    log.write("info", event="after")
    while not found.endswith(b'"after"}\n'):
        found += os.read(reader, 1 << 16)
    records = [json.loads(line) for line in found.splitlines()]
    assert sum(record.get("dropped", 0) for record in records) == lost
    assert sum(record["event"].startswith("x") for record in records) == 3000 - lost
    sink.close()


def test_a_reader_that_is_gone_is_no_fault(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    sink = Unblocking(writer)
    for _ in range(10):
        Log(sink).write("info", event="x")
    sink.close()
    assert sink.dropped == 10


def test_a_flood_of_one_kind_is_counted_and_not_written() -> None:
    lines: list[dict[str, Any]] = []
    now = [1.0]

    class Kept:
        def write(self, text: str) -> None:
            lines.append(json.loads(text))

    sparse = Sparse(Log(Kept()), "more of it", lambda: now[0])
    for _ in range(500):
        sparse.write("info", event="refused")
    assert len(lines) == MOST_A_SECOND
    now[0] = 2.0
    sparse.settle()
    assert lines[-1]["left_out"] == 500 - MOST_A_SECOND and lines[-1]["event"] == "more of it"
    printed = Printed(Log(Kept()))
    print("one\n\n\x1b[31mtwo\x9b", file=printed)
    assert [line["event"] for line in lines[-2:]] == ["one", "[31mtwo"]


def test_a_terminal_is_given_no_commands() -> None:
    assert printable("a\x1b[31m\r\n\x07\x9b\x7f\u202e\ud800é 模") == "a [31m       é 模"


# ---------------------------------------------------------------- a server whose log nobody reads


def started(folder: Path, stderr: int) -> tuple[subprocess.Popen[bytes], int]:
    """A server and its port, which is found where the kernel lists it: the log may not be readable."""
    command = [sys.executable, "-m", "headway", "serve", str(folder), *OPTIONS, "--spares", "0"]
    process = subprocess.Popen(command, stderr=stderr)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if port := listening(process.pid):
            return process, port
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"no server: {process.wait()}")


def listening(pid: int) -> int:
    """The port on which a process listens, or 0."""
    inodes = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(file))
        except OSError:
            continue
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = row.split()
        if columns[3] == "0A" and f"socket:[{columns[9]}]" in inodes:
            return int(columns[1].rpartition(":")[2], 16)
    return 0


def answers(port: int, count: int) -> set[int]:
    with httpx2.Client(timeout=PATIENCE) as client:
        return {client.get(f"http://127.0.0.1:{port}/v1/models").status_code for _ in range(count)}


@pytest.mark.parametrize("how", ["full", "gone"])
def test_a_server_lives_without_a_reader_of_its_log(folder: Path, how: str) -> None:
    """The pipe is full from the start, or its reader is gone; a worker dies meanwhile, and the end is a good one."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while how == "full":
        try:
            os.write(writer, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writer, True)
    if how == "gone":
        os.close(reader)
    process, port = started(folder, writer)
    try:
        assert answers(port, 50) == {200}
        (worker,) = (one for one in children(process.pid) if program(one) == "headway.serve.worker")
        os.kill(worker, 9)
        with httpx2.Client(timeout=PATIENCE) as client:
            reply = client.post(f"http://127.0.0.1:{port}/v1/translate", json={"texts": TEXT[:1]})
            assert reply.status_code == 200
            assert client.get(f"http://127.0.0.1:{port}/health").status_code == 200
            if how == "gone":
                measures = client.get(f"http://127.0.0.1:{port}/metrics").text
                assert "headway_log_dropped 0.0" not in measures
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        for file in (writer, *((reader,) if how == "full" else ())):
            os.close(file)


# ---------------------------------------------------------------- the pool


def test_a_dead_pool_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pool, "PAUSE", 0.01)
    model = tmp_path / "secret" / "toy"

    async def run() -> None:
        starts = 0
        broken = True

        def make() -> FakeWorker:
            nonlocal starts
            starts += 1
            if starts > 1 and broken:
                raise UsageError(f"{model} has no headway.json")
            return FakeWorker()

        async with local(make, folders=(model,)) as server:
            assert (await ask(server.app, "GET", "/health")).status == 200
            server.workers[0].dead.set()
            while starts < 3:
                await asyncio.sleep(0.01)
            for path, body in (("/health", None), ("/ready", None), ("/v1/translate", {"texts": ["x"]})):
                reply = await ask(server.app, "GET" if body is None else "POST", path, body)
                assert reply.status == 503 and "has no headway.json" in str(reply.json())
                assert str(tmp_path) not in str(reply.json()) and "retry-after" in reply.headers
            failures = [record for record in server.records() if "could not be started" in record.get("event", "")]
            assert failures and str(model) in failures[0]["reason"]
            broken = False
            await well_again(server)
            assert (await ask(server.app, "POST", "/v1/translate", {"texts": ["x"]})).status == 200

    asyncio.run(run())


async def well_again(server: Local) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await ask(server.app, "GET", "/health")).status != 200:
            await asyncio.sleep(0.01)


def test_a_process_that_is_being_replaced_is_no_trouble() -> None:
    async def run() -> None:
        async with local() as server:
            server.workers[0].dead.set()
            assert (await ask(server.app, "GET", "/health")).status == 200
            await well_again(server)

    asyncio.run(run())


def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Python that ends with words instead of opening models."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'loading' >&2\nprintf 'no \\033[31mmemory' >&2\nexit 7\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))

    async def run() -> None:
        with pytest.raises(Died, match=r"exit code 7: no  ?\[31mmemory"):
            await ModelProcess.start({}, {}, Log(sys.stderr))

    asyncio.run(run())


def test_a_first_start_that_fails_is_one_line() -> None:
    def make() -> FakeWorker:
        raise Died("signal 9: killed")

    async def run() -> None:
        with pytest.raises(HeadwayError, match="ended before it was ready: signal 9: killed"):
            async with local(make):
                pass

    asyncio.run(run())
