"""Requests on their way through queue and model processes: batches, turns, deaths, deadlines, those who leave."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.serve.batching import BATCH_PIECES, BATCH_TEXTS, TRIES, Job, Kind, Queue, pieces
from headway.serve.fingerprint import fingerprint, open_same
from headway.serve.problems import Problem
from headway.serve.settings import Limits
from model_folders import random_folder
from serving import FACTS, FakeWorker, Local, ask, local, said

Act = Callable[[dict[str, Any]], Any]


class Gate:
    """Holds every batch until it is opened, and remembers what came."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun, self.open = asyncio.Event(), asyncio.Event()

    async def __call__(self, message: dict[str, Any]) -> None:
        self.batches.append(message["texts"])
        self.begun.set()
        await self.open.wait()


def translate(server: Local, *texts: str, **more: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(ask(server.app, "POST", "/v1/translate", {"texts": list(texts), **more}))


def texts_of(reply: Any) -> list[str]:
    return [one["text"] for one in reply.json()["translations"]]


# ---------------------------------------------------------------- batches


def test_an_idle_server_begins_at_once_and_a_busy_one_gathers() -> None:
    async def run() -> None:
        gate = Gate()
        async with local(lambda: FakeWorker(gate)) as server:
            first = translate(server, "a")
            await gate.begun.wait()
            others = [translate(server, f"text {number}") for number in range(10)]
            while server.service.waiting.work < sum(pieces(f"text {n}") * 5 for n in range(10)):
                await asyncio.sleep(0.001)
            gate.open.set()
            assert texts_of(await first) == ["A"]
            assert [texts_of(await one) for one in others] == [[f"TEXT {number}"] for number in range(10)]
            assert [len(batch) for batch in gate.batches] == [1, 10]

    asyncio.run(run())


def test_only_texts_of_one_kind_share_a_batch() -> None:
    async def run() -> None:
        gate = Gate()
        async with local(lambda: FakeWorker(gate)) as server:
            kinds = ({}, {"beam": 2}, {"n_best": 2}, {"alignments": True}, {"glossary": [["a", "b"]]})
            tasks = [translate(server, "x", **kind) for kind in kinds for _ in range(2)]
            await gate.begun.wait()
            gate.open.set()
            await asyncio.gather(*tasks)
            assert sum(map(len, gate.batches)) == 10 and len(gate.batches) >= 5

    asyncio.run(run())


requests = st.lists(st.lists(st.integers(1, 600), min_size=1, max_size=12), min_size=1, max_size=12)


@given(requests)
def test_every_text_is_taken_once_and_batches_keep_their_size(sizes: list[list[int]]) -> None:
    async def run() -> None:
        waiting, kind = Queue(Limits(queue=10**9)), Kind("translate", "toy")
        jobs = [Job(kind, ["x" * size for size in each], asyncio.get_running_loop().create_future()) for each in sizes]
        for job in jobs:
            waiting.jobs.append(job)
            waiting.work += sum(job.work(place) for place in job.places)
        taken: list[tuple[int, int]] = []
        turns: list[int] = []
        while (batch := waiting.take()) is not None:
            assert len(batch.entries) <= BATCH_TEXTS
            before_last = sum(job.work(place) for job, place in batch.entries[:-1])
            assert before_last < BATCH_PIECES
            taken += [(jobs.index(job), place) for job, place in batch.entries]
            turns += [jobs.index(job) for job, _ in batch.entries]
        assert sorted(taken) == [(number, place) for number, job in enumerate(jobs) for place in range(len(job.texts))]
        assert turns[: len(jobs)] == list(range(len(jobs)))  # everybody's first text before anybody's second
        assert waiting.work == 0

    asyncio.run(run())


# ---------------------------------------------------------------- deaths


def dying(times: int) -> Act:
    """Dies over the first batches, whatever they are."""
    left = [times]

    def act(message: dict[str, Any]) -> str | None:
        left[0] -= 1
        return "die" if left[0] >= 0 else None

    return act


@pytest.mark.parametrize("spares", [0, 1])
def test_a_death_costs_a_second_try_and_nobody_an_answer(spares: int) -> None:
    async def run() -> None:
        act = dying(TRIES - 1)
        async with local(lambda: FakeWorker(act), spares=spares) as server:
            replies = await asyncio.gather(*(translate(server, f"t{number}", "b") for number in range(8)))
            assert [texts_of(reply) for reply in replies] == [[f"T{number}", "B"] for number in range(8)]
            metrics = (await ask(server.app, "GET", "/metrics")).body.decode()
            assert f"headway_restarts_total {TRIES - 1}.0" in metrics

    asyncio.run(run())


@pytest.mark.parametrize("death", ["die", {"fault": "RuntimeError in x.py:1"}])
def test_a_text_that_kills_fails_alone(death: Any) -> None:
    async def run() -> None:
        def act(message: dict[str, Any]) -> Any:
            return death if "poison" in message["texts"] else None

        async with local(lambda: FakeWorker(act)) as server:
            bad, *good = await asyncio.gather(*(translate(server, text) for text in ("poison", *"abcdefgh")))
            assert bad.status == 500 and "poison" not in bad.body.decode()
            assert [texts_of(reply) for reply in good] == [[letter] for letter in "ABCDEFGH"]

    asyncio.run(run())


def test_a_process_that_dies_idle_is_replaced_before_it_is_needed() -> None:
    async def run() -> None:
        async with local() as server:
            assert (await ask(server.app, "GET", "/ready")).status == 200
            server.workers[0].dead.set()
            while len(server.workers) < 2:
                await asyncio.sleep(0.001)
            assert texts_of(await translate(server, "a")) == ["A"]
            assert server.service.waiting.jobs == type(server.service.waiting.jobs)()

    asyncio.run(run())


def test_a_wrong_wish_is_told_and_not_tried_again() -> None:
    async def run() -> None:
        told = iter([{"wrong": "no such tag", "long": False}, {"wrong": "200 pieces", "long": True}])
        async with local(lambda: FakeWorker(lambda _: next(told))) as server:
            wrong, long = [await translate(server, "a") for _ in range(2)]
            assert (wrong.status, wrong.json()["detail"]) == (400, "no such tag")
            assert (long.status, long.json()["detail"]) == (413, "200 pieces")

    asyncio.run(run())


# ---------------------------------------------------------------- too much, too late, gone


def test_what_would_wait_too_long_is_refused_at_once() -> None:
    async def run() -> None:
        gate = Gate()
        async with local(lambda: FakeWorker(gate), limits=Limits(queue=3000)) as server:
            first = translate(server, "a")
            await gate.begun.wait()
            tasks = [translate(server, "x" * 300) for _ in range(10)]  # 102 pieces times 5 each
            refused = [await task for task in tasks[5:]]
            assert {reply.status for reply in refused} == {429}
            assert all(int(reply.headers["retry-after"]) >= 1 for reply in refused)
            gate.open.set()
            assert {reply.status for reply in await asyncio.gather(first, *tasks[:5])} == {200}
            assert (await translate(server, *["x" * 3000] * 50)).status == 413

    asyncio.run(run())


def test_the_speed_decides_how_much_may_wait() -> None:
    async def run() -> None:
        waiting, kind = Queue(Limits(wait=2.0)), Kind("translate", "toy")

        def job(size: int) -> Job:
            return Job(kind, ["x" * 3 * size], asyncio.get_running_loop().create_future())

        waiting.done, waiting.seconds = 50_000.0, 1.0
        waiting.add(job(99_000))
        waiting.add(job(2_000))  # the wait before it is just bearable
        with pytest.raises(Problem) as refused:
            waiting.add(job(10))
        assert refused.value.status == 429 and refused.value.retry_after == 3

    asyncio.run(run())


def test_the_deadline_is_kept() -> None:
    async def run() -> None:
        gate = Gate()
        async with local(lambda: FakeWorker(gate), limits=Limits(deadline=0.1)) as server:
            first, second = translate(server, "a"), translate(server, "b")
            replies = await asyncio.gather(first, second)
            assert [reply.status for reply in replies] == [429, 429]
            assert server.service.waiting.work == 0
            gate.open.set()
            assert (await translate(server, "c")).status == 200

    asyncio.run(run())


def test_work_of_clients_that_left_is_not_begun_and_what_runs_is_called_off() -> None:
    async def run() -> None:
        gate = Gate()
        async with local(lambda: FakeWorker(gate)) as server:
            leave = asyncio.Event()
            body = {"texts": ["gone"]}
            tasks = [
                asyncio.create_task(ask(server.app, "POST", "/v1/translate", body, left=leave)) for _ in range(100)
            ]
            await gate.begun.wait()
            while len(server.service.waiting.jobs) < 100 - len(gate.batches[0]):
                await asyncio.sleep(0.001)
            leave.set()
            await asyncio.gather(*tasks)
            assert server.service.waiting.work == 0 and not server.service.waiting.jobs
            assert {record["status"] for record in server.records()} == {499}
            while not server.workers[0].stopped:
                await asyncio.sleep(0.001)
            gate.open.set()
            assert texts_of(await translate(server, "stayed")) == ["STAYED"]
            assert gate.batches[1:] == [["stayed"]]

    asyncio.run(run())


def test_a_silent_process_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.serve.pool.SILENCE", 0.05)

    async def run() -> None:
        async def silent(message: dict[str, Any]) -> None:
            await asyncio.Event().wait()

        acts = iter([silent, None])
        async with local(lambda: FakeWorker(next(acts))) as server:
            assert texts_of(await translate(server, "a")) == ["A"]
            assert len(server.workers) == 2

    asyncio.run(run())


def test_a_process_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.serve.pool.PAUSE", 0.01)

    async def run() -> None:
        attempts = 0

        def make() -> FakeWorker:
            nonlocal attempts
            attempts += 1
            if attempts in (2, 3):
                raise OSError("no memory")
            return FakeWorker(dying(1) if attempts == 1 else None)

        async with local(make) as server:
            assert texts_of(await translate(server, "a")) == ["A"]
            assert attempts == 4

    asyncio.run(run())


def test_streams_tell_what_is_written_and_end() -> None:
    class Writer(FakeWorker):
        async def ask(self, message: dict[str, Any], heard: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
            for text in ("Ein", "Ein Hund"):
                heard({"text": text})
                await asyncio.sleep(0.001)
            return {"found": [said("ein hund.")]}

    async def run() -> None:
        async with local(Writer) as server:
            reply = await ask(server.app, "POST", "/v1/stream", {"text": "a dog"})
            assert reply.headers["content-type"].startswith("text/event-stream")
            events = reply.body.decode().split("\n\n")
            assert [event.split("\n")[0] for event in events[:-1]] == ["event: text"] * 3 + ["event: done"]
            assert 'data: {"text": "EIN HUND."}' in events[-2]

    asyncio.run(run())


# ---------------------------------------------------------------- models that are exchanged on disk


def test_a_model_that_was_exchanged_is_served_and_described_as_one() -> None:
    """Two processes and a spare know the old model; a new one knows the next. Answers never mix afterwards."""
    disk = ["old"]

    class Versioned(FakeWorker):
        def __init__(self) -> None:
            self.version = disk[0]
            super().__init__(lambda message: {"found": [said(f"{self.version} {text}") for text in message["texts"]]})
            self.facts = [{**FACTS, "fingerprint": self.version}]

    async def described(server: Local) -> str:
        return (await ask(server.app, "GET", "/v1/models")).json()[0]["fingerprint"]

    async def run() -> None:
        async with local(Versioned, workers=2, spares=1) as server:
            assert await described(server) == "old" and texts_of(await translate(server, "a")) == ["OLD A"]
            while len(server.workers) < 3:
                await asyncio.sleep(0)
            disk[0] = "new"
            server.workers[0].dead.set()  # the spare takes its place, and knows the old one
            await asyncio.sleep(0.05)
            assert await described(server) == "old" and texts_of(await translate(server, "a")) == ["OLD A"]
            next(worker for worker in server.workers if not worker.gone.done()).dead.set()
            await asyncio.sleep(0.05)
            assert await described(server) == "new"
            found = await asyncio.gather(*(translate(server, str(number)) for number in range(100)))
            assert {text.split()[0] for reply in found for text in texts_of(reply)} == {"NEW"}
            left = [worker.version for worker in server.workers if not worker.gone.done()]
            assert left == ["new"] * 3
            assert sum("exchanged" in record.get("event", "") for record in server.records()) == 1

    asyncio.run(run())


def test_a_fingerprint_follows_every_file_and_a_model_is_read_from_one_state(tmp_path: Path) -> None:
    folder = random_folder(tmp_path / "a")
    first = fingerprint(folder)
    assert re.fullmatch(r"[0-9a-f]{64}", first) and fingerprint(random_folder(tmp_path / "b")) == first
    read: list[int] = []

    def exchanged_meanwhile(path: Path) -> int:
        read.append(len(read))
        if len(read) == 1:
            random_folder(folder, seed=1)
        return read[-1]

    model, found = open_same(folder, exchanged_meanwhile)
    assert model == 1 and found == fingerprint(folder) != first
    (folder / "config.toml").write_text((folder / "config.toml").read_text() + "# edited\n")
    assert fingerprint(folder) != found
