"""Texts that are slow to read, traces, and clients that leave: none of them holds up the others."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.inspection.trace_request import EVERYTHING
from headway.serve.batching import ignore_event
from headway.serve.logs import Log
from headway.serve.model_handlers import ModelHandlers
from headway.serve.problems import Problem
from headway.serve.process import Worker
from headway.serve.reading import Readers, ReadingProcess, start_reading
from headway.serve.settings import Limits
from model_folders import TEXT, random_folder
from serving import FakeWorker, ReadingWorker, ask, local

PAGE = {"q": "<p>A <b>dog</b>.</p>", "source": "en", "target": "de", "format": "html"}
TRACE = {"q": "a dog"}


class Stuck(ReadingWorker):
    """Never done with what holds the word "slow"."""

    async def ask(self, message: dict[str, Any], heard: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        if "slow" in str(message):
            await asyncio.Event().wait()
        return await super().ask(message, heard)


class Starts:
    """Starts processes and remembers them."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self.start, self.started = start, list[Any]()

    async def __call__(self, log: Log) -> Worker:
        self.started.append(self.start())
        return self.started[-1]


# ---------------------------------------------------------------- reading


def test_what_takes_too_long_to_read_is_ended_and_others_go_on() -> None:
    async def run() -> None:
        starts = Starts(Stuck)
        async with local(read=starts, limits=Limits(deadline=0.3)) as server:
            slow = [ask(server.app, "POST", "/translate", {**PAGE, "q": "slow"}) for _ in range(3)]
            assert {reply.status for reply in await asyncio.gather(*slow)} == {429}
            assert all(worker.dead.is_set() for worker in starts.started)
            assert server.service.readers.waiting == 0
            reply = await ask(server.app, "POST", "/translate", PAGE)
            assert reply.json()["translatedText"] == "<p>A <b>DOG</b>.</p>"

    asyncio.run(run())


def test_a_client_that_leaves_ends_the_reading() -> None:
    async def run() -> None:
        starts, leave = Starts(Stuck), asyncio.Event()
        async with local(read=starts) as server:
            gone = asyncio.create_task(ask(server.app, "POST", "/translate", {**PAGE, "q": "slow"}, left=leave))
            while server.service.readers.waiting == 0:
                await asyncio.sleep(0.001)
            leave.set()
            await gone
            assert starts.started[0].dead.is_set() and server.service.readers.waiting == 0

    asyncio.run(run())


def test_too_many_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.serve.reading.MOST_WAITING", 4)

    async def run() -> None:
        async with local(read=Starts(Stuck), limits=Limits(deadline=1.0)) as server:
            begun = time.monotonic()
            slow = [ask(server.app, "POST", "/translate", {**PAGE, "q": "slow"}) for _ in range(4)]
            waiting = asyncio.gather(*slow)
            await asyncio.sleep(0.05)
            assert (await ask(server.app, "POST", "/translate", PAGE)).status == 429
            assert time.monotonic() - begun < 0.9  # at once
            await waiting

    asyncio.run(run())


def test_a_process_that_is_gone_is_replaced() -> None:
    async def run() -> None:
        starts = Starts(lambda: FakeWorker(lambda _: "die") if not starts.started else ReadingWorker())
        async with local(read=starts) as server:
            assert (await ask(server.app, "POST", "/translate", PAGE)).status == 200
            assert len(starts.started) == 2
        everyone = Starts(lambda: FakeWorker(lambda _: "die"))
        async with local(read=everyone) as server:
            assert (await ask(server.app, "POST", "/translate", PAGE)).status == 500
            assert "dog" not in server.log.getvalue()

    asyncio.run(run())


def test_a_real_process_reads_writes_guesses_and_can_be_killed() -> None:
    async def run() -> None:
        limits = Limits(deadline=60.0)
        readers = Readers(start_reading, limits, Log(io.StringIO()))
        await readers.open()
        (page,) = await readers.read("html", ["<p>A <b>dog</b>.</p>"])
        assert (page.texts, page.aligned) == (["A dog."], True)
        assert [guess.language for guess in (await readers.guesses(["en", "de"], ["Das ist ein Hund."]))[0]][0] == "de"
        with pytest.raises(Problem) as wrong:
            await readers.read_file(".docx", b"nothing")
        assert wrong.value.status == 400
        (process,) = readers.idle
        assert isinstance(process, ReadingProcess)
        readers.limits = replace(limits, deadline=0.2)
        with pytest.raises(Problem) as late:
            await readers.read("html", ["<b>x</b> y. " * 1_000_000])
        assert late.value.status == 429 and process.gone.done() and not readers.idle
        readers.limits = limits
        assert (await readers.read("text", ["A dog."]))[0].texts == ["A dog."]
        await readers.close()

    asyncio.run(run())


# ---------------------------------------------------------------- traces


class Held(FakeWorker):
    """Traces wait until it is told to stop, or for ever; everything else is said at once."""

    def __init__(self, heeds: bool = True) -> None:
        super().__init__(self.hold)
        self.heeds, self.begun, self.told = heeds, asyncio.Event(), asyncio.Event()

    async def hold(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if message["act"] != "trace":
            return None
        self.begun.set()
        await self.told.wait()
        return {"found": [{"shown": message["request"]["q"]}]}

    def stop(self, number: int) -> None:
        super().stop(number)
        if self.heeds:
            self.told.set()


def test_translations_go_on_beside_a_trace() -> None:
    async def run() -> None:
        async with local(Held) as server:
            trace = asyncio.create_task(ask(server.app, "POST", "/v1/trace", TRACE))
            while len(server.workers) < 2:
                await asyncio.sleep(0.001)
            tracer = server.workers[1]
            await tracer.begun.wait()
            assert (await ask(server.app, "POST", "/v1/translate", {"texts": ["a"]})).status == 200
            assert not trace.done()
            tracer.told.set()
            assert (await trace).json() == {"shown": "a dog"}
            assert (await ask(server.app, "POST", "/v1/trace", TRACE)).status == 200
            assert len(server.workers) == 2  # the same process again

    asyncio.run(run())


@pytest.mark.parametrize("heeds", [True, False])
def test_a_trace_ends_when_its_client_leaves(monkeypatch: pytest.MonkeyPatch, heeds: bool) -> None:
    """Called off; a process that does not heed that is ended, and another takes its place."""
    monkeypatch.setattr("headway.serve.pool.LINGER", 0.1)

    async def run() -> None:
        leave = asyncio.Event()
        async with local(lambda: Held(heeds)) as server:
            gone = asyncio.create_task(ask(server.app, "POST", "/v1/trace", TRACE, left=leave))
            while len(server.workers) < 2:
                await asyncio.sleep(0.001)
            tracer = server.workers[1]
            await tracer.begun.wait()
            leave.set()
            await gone
            while not (tracer.stopped and tracer.dead.is_set() is not heeds):
                await asyncio.sleep(0.001)
            while len(server.workers) < (2 if heeds else 3):
                await asyncio.sleep(0.001)
            assert server.service.tracing.work == 0 and not server.workers[0].dead.is_set()

    asyncio.run(run())


def test_a_trace_has_a_deadline_of_its_own() -> None:
    async def run() -> None:
        async with local(Held, limits=Limits(deadline=60.0, trace_deadline=0.2)) as server:
            reply = await ask(server.app, "POST", "/v1/trace", TRACE)
            assert reply.status == 429 and "0.2 seconds" in reply.json()["detail"]
            assert (await ask(server.app, "POST", "/v1/translate", {"texts": ["a"]})).status == 200

    asyncio.run(run())


def test_traces_can_be_switched_off() -> None:
    async def run() -> None:
        async with local(Held, traces=False) as server:
            reply = await ask(server.app, "POST", "/v1/trace", TRACE)
            assert reply.status == 403 and "traces" in reply.json()["detail"]
            assert (await ask(server.app, "POST", "/v1/translate", {"texts": ["a"]})).status == 200
            assert len(server.workers) == 1

    asyncio.run(run())


# ---------------------------------------------------------------- real models


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> ModelHandlers:
    options = {"device": "cpu", "engine": "torch", "precision": "auto", "workers": 1}
    return ModelHandlers({"toy": random_folder(tmp_path_factory.mktemp("models") / "toy")}, options, ignore_event)


class Patience:
    """Waits for an answer until it was asked so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def trace_message(*panels: str) -> dict[str, Any]:
    lists = {"include": panels, "prefix": [], "edit": [], "ablate": []}
    return {"id": 1, "act": "trace", "model": "toy", "texts": [TEXT[0]], "request": {"q": TEXT[0], **lists}}


def asked_times(desk: ModelHandlers, *panels: str) -> int:
    """How often a trace asks whether somebody still waits."""
    patience = Patience(10**6)
    (found,) = desk.answer(trace_message(*panels), patience)
    assert found["source"]["text"] == TEXT[0]
    return 10**6 - patience.left


def test_a_trace_asks_at_every_step_panel_and_piece(desk: ModelHandlers) -> None:
    (found,) = desk.answer(trace_message("beam"), lambda: False)
    plain, steps = asked_times(desk), len(found["beam"]["steps"])
    assert plain >= steps > 1
    assert asked_times(desk, "heads", "lens") == plain + 2
    assert asked_times(desk, "attribution") == plain + len(found["target"]["pieces"])


def test_a_trace_that_is_called_off_does_nothing_more(desk: ModelHandlers) -> None:
    for times in (0, 1, asked_times(desk, *EVERYTHING) - 1):
        patience = Patience(times)
        assert desk.answer(trace_message(*EVERYTHING), patience) == [None]
        assert patience.left == -1  # asked no further
    assert desk.answer(trace_message(), lambda: False)[0]["source"]["text"] == TEXT[0]


def test_no_batch_is_begun_for_clients_that_left(desk: ModelHandlers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.tasks.translation.translator.PACK_SENTENCES", {"cpu": 1})
    manner = {"beam": 1, "n_best": 1, "to": "", "split": True, "alignments": False}
    message = {"id": 1, "act": "translate", "model": "toy", "texts": TEXT, "manner": manner}
    patience = Patience(2)
    assert desk.answer(message, patience) == [None] * len(TEXT) and patience.left <= -1
    assert len(desk.answer(message, lambda: False)) == len(TEXT)


def test_the_command_has_options_for_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.commands.serve import serve
    from headway.serve import server

    found = []
    monkeypatch.setattr(server, "run", found.append)
    serve([Path("toy")], traces=False, trace_deadline=3.0)
    serve([Path("toy")])
    assert [(one.traces, one.limits.trace_deadline) for one in found] == [(False, 3.0), (True, 20.0)]
