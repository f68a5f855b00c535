"""Many clients, and clients that ask for too much: limits by address and key, connections, names, odd requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bench.clients import lasting, overload, steady

from headway.errors import UsageError
from headway.serve import connections
from headway.serve.crowd import ClientCounts, client_of
from headway.serve.hosts import Hosts, name_of
from headway.serve.keys import make_key
from headway.serve.problems import Problem
from headway.serve.server import listening, server_of
from headway.serve.settings import Limits, Settings
from serving import PATIENCE, FakeWorker, Local, ask, local

TOY = (Path("toy"),)


@contextlib.asynccontextmanager
async def real(act: Any = None, **limits: Any) -> AsyncIterator[tuple[Local, int]]:
    """A server in this process that listens, and its port."""
    chosen = Limits(**{"deadline": 60.0, **limits})
    settings = Settings(TOY, port=0, limits=chosen)
    async with local(lambda: FakeWorker(act), limits=chosen) as it:
        with listening(settings) as listener:
            server = server_of(it.service, settings)
            serving = asyncio.create_task(server.serve([listener]))
            while not server.started:
                await asyncio.sleep(0)
            yield it, listener.getsockname()[1]
            server.should_exit = True
            await serving


async def sent(port: int, *parts: bytes) -> bytes:
    """All that a server says to these bytes until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(OSError):
        for part in parts:
            writer.write(part)
            await writer.drain()
    found = b""
    with contextlib.suppress(OSError):
        while part := await asyncio.wait_for(reader.read(1 << 16), PATIENCE):
            found += part
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return found


def request(path: str, body: Any = None, **headers: str) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    usual = {"Host": "localhost", "Content-Type": "application/json", "Connection": "close"}
    given = {**usual, "Content-Length": str(len(data)), **headers}
    rows = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    return f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n{rows}\r\n".encode() + data


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# ---------------------------------------------------------------- overload


def test_overload_on_new_connections_is_refused_and_the_rest_answered_as_fast_as_ever() -> None:
    async def slowly(message: dict[str, Any]) -> None:
        await asyncio.sleep(len(message["texts"]) / 60)  # sixty texts a second

    async def run() -> None:
        async with real(slowly, client_requests=60) as (server, port):
            url, texts = f"http://localhost:{port}", ["a short text"]
            before = await steady(url, texts, lasting(1.5))
            flood = await overload(url, texts, 5 * before.rate, 3, kept=False)
            assert set(before.statuses) == {200} and set(flood.statuses) == {200, 429}
            assert flood.rate >= 0.8 * before.rate
            assert max(sample.seconds for sample in flood.samples) <= 6
            refused = [one for one in server.records() if one.get("status") == 429]
            assert flood.statuses[429] > 200 and 0 < len(refused) < 100  # a flood of requests is none of records
            assert not server.service.crowd.requests

    asyncio.run(run())


def test_twenty_requests_at_once_are_nobodys_trouble_and_a_refusal_can_be_read() -> None:
    gate = asyncio.Event()

    async def held(message: dict[str, Any]) -> None:
        await gate.wait()

    async def run() -> None:
        async with real(held, client_requests=20) as (server, port):
            ask_one = request("/v1/translate", {"texts": ["x"]})
            honest = [asyncio.create_task(sent(port, ask_one)) for _ in range(20)]
            while server.service.crowd.requests["address 127.0.0.1"] < 20:
                await asyncio.sleep(0.01)
            for path in ("/v1/translate", "/v2/translate", "/translate"):
                answer = await sent(port, request(path, {"texts": ["x" * 500_000]}))
                head, _, body = answer.partition(b"\r\n\r\n")
                assert status_of(answer) == 429 and b"retry-after: 1" in head.lower() and b"nosniff" in head
                assert "too many requests" in str(json.loads(body)), path
            assert status_of(await sent(port, request("/health"))) == 200  # whoever watches the server is heard
            gate.set()
            assert {status_of(answer) for answer in await asyncio.gather(*honest)} == {200}
            assert status_of(await sent(port, ask_one)) == 200

    asyncio.run(run())
    assert Limits().client_requests >= 5 * 20


def test_more_connections_than_allowed_are_told_so() -> None:
    async def run() -> None:
        async with real(client_connections=3) as (server, port):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            await asyncio.sleep(0.1)
            assert status_of(await sent(port, request("/v1/models"))) == 429
            assert await sent(port) == b""  # who says nothing is not waited for
            for _, writer in idle:
                writer.close()
            while server.service.crowd.connections:
                await asyncio.sleep(0.01)
            assert status_of(await sent(port, request("/v1/models"))) == 200

    asyncio.run(run())


def test_a_key_has_a_limit_of_its_own(tmp_path: Path) -> None:
    key, other = make_key(tmp_path / "keys"), make_key(tmp_path / "keys")
    gate = asyncio.Event()

    async def held(message: dict[str, Any]) -> None:
        await gate.wait()

    async def run() -> None:
        body = {"q": "x", "source": "en", "target": "de"}

        async def one(number: int, shown: str) -> int:
            addressed = server.addressed(f"10.0.0.{number}")
            return (await ask(addressed, "POST", "/translate", {**body, "api_key": shown})).status

        limits = Limits(deadline=60.0, client_requests=2)
        async with local(lambda: FakeWorker(held), key_file=tmp_path / "keys", limits=limits) as server:
            first = [asyncio.create_task(one(number, key)) for number in range(2)]
            while len(server.service.crowd.requests) < 4:  # everybody, two addresses, one key
                await asyncio.sleep(0.01)
            assert await one(2, key) == 429
            another = asyncio.create_task(one(3, other))
            await asyncio.sleep(0.05)
            gate.set()
            assert [await task for task in (*first, another)] == [200] * 3
            assert not server.service.crowd.requests

    asyncio.run(run())


def test_clients_are_told_apart_by_what_they_cannot_choose() -> None:
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:2") != client_of("2001:db8:1::1")
    assert client_of("::ffff:10.1.2.3") == client_of("10.1.2.3") != client_of("10.1.2.4")
    assert client_of("fe80::1%eth0") == client_of("fe80::2")
    crowd = ClientCounts(Limits(requests=3, client_requests=2))
    with contextlib.ExitStack() as held:
        for name in ("a", "a", "b"):
            held.enter_context(crowd.asking(name))
        for name in ("a", "c"):
            with pytest.raises(Problem) as problem, crowd.asking(name):
                pass
            assert problem.value.status == 429 and problem.value.retry_after
    with pytest.raises(UsageError, match="--client-requests 0"):
        Settings(TOY, limits=Limits(client_requests=0))


# ---------------------------------------------------------------- bodies


def test_two_lengths_are_refused() -> None:
    async def run() -> None:
        async with real() as (_, port):
            smuggled = request("/v1/translate", {"texts": ["x"]}, Transfer_Encoding="chunked", Connection="keep-alive")
            answer = await sent(port, smuggled)  # and the connection is closed
            assert status_of(answer) == 400 and b"Content-Length" in answer and answer.count(b"HTTP/1.1") == 1

    asyncio.run(run())


def test_a_body_without_an_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that nobody waits for, as its answer was given before it came."""
    monkeypatch.setattr(connections, "MOST_UNREAD", 1 << 18)
    part = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"

    async def run() -> None:
        async with real(body=100_000) as (_, port):
            for path in ("/v1/translate", "/v1/nowhere", "/none?" + "a=1&" * 200):
                head = request(path, {}, Transfer_Encoding="chunked", Connection="keep-alive")
                head = head.replace(b"Content-Length: 2\r\n", b"")[:-2]
                count = 0

                def endless() -> Any:
                    nonlocal count
                    yield head  # noqa: B023
                    while count < 2000:  # 131 MB
                        count += 1
                        yield part

                await stream(port, endless())
                assert count < 200, path

    asyncio.run(run())


async def stream(port: int, parts: Any) -> None:
    """Send until the server has had enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(OSError):
        for part in parts:
            writer.write(part)
            await writer.drain()
            if reader.at_eof():
                break
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("host", "more", "good", "bad"),
    [
        ("127.0.0.1", (), ["localhost", "127.0.0.1:5000", "LOCALHOST.", "[::1]:80", "127.9.9.9"], ["10.0.0.1", "evil"]),
        ("::1", (), ["[::1]", "localhost:5000"], ["[::2]", "evil.example:5000"]),
        ("0.0.0.0", (), ["10.0.0.1:80", "[2001:db8::1]", "localhost"], ["evil.example", "127.0.0.1.evil.example"]),
        ("mt.example", (), ["mt.example", "MT.Example:443", "localhost"], ["example", "a.mt.example", "10.0.0.1"]),
        ("127.0.0.1", ("mt.example", "10.0.0.1"), ["mt.example:1", "10.0.0.1"], ["mt.example.evil", "10.0.0.2"]),
        ("0.0.0.0", ("*",), ["anything.example"], []),
        ("127.0.0.1", (), [], ["a b", "a/b", "localhost@evil", "localhost:5000:1", "[::1", ":80", "é", "localhost\tx"]),
    ],
)
def test_a_server_knows_its_names(host: str, more: tuple[str, ...], good: list[str], bad: list[str]) -> None:
    hosts = Hosts(host, more)
    for name in good:
        hosts.check(name)
    for name in bad:
        with pytest.raises(Problem, match="--allowed-host"):
            hosts.check(name)
    assert name_of("[2001:DB8::1]:80") == name_of("2001:db8::1") == "2001:db8::1"


def test_a_page_elsewhere_cannot_take_the_servers_place() -> None:
    async def run() -> None:
        async with local() as server:
            for path, body in (("/", None), ("/v1/models", None), ("/translate", {"q": "x"}), ("/health", None)):
                method = "GET" if body is None else "POST"
                reply = await ask(server.app, method, path, body, {"host": "evil.example:5000"})
                assert reply.status == 400 and b"evil" not in reply.body
                assert (await ask(server.app, method, path, body, {"host": "localhost"})).status in (200, 400)

    asyncio.run(run())
    for wrong in ("", "http://x", "a b"):
        with pytest.raises(UsageError, match="--allowed-host"):
            Settings(TOY, allowed_hosts=(wrong,))
