"""A server under load: steady, overloaded, among idle and slow connections, for long, and with its workers killed.

python -m bench.serving [--rows L1,L2,L3,L4,L5,L6,F7] [--model FOLDER] [--text FILE] [--seconds 60] [--requests 5000]

Without a model one of random weights is made (width 256, 3+3 layers, 8,000 pieces). Its outputs never end by
themselves: it writes three times as much as it reads, so its figures are a lower bound. Server and clients share the
machine. Expected before the first measurement: 20 sentences a second from 20 clients on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.clients import Outcome, dawdle, idle, lasting, overload, slope, steady

WARM_UP = 5.0  # seconds that are not measured
KILLS = 20
FILLING = 5000  # requests of 100 clients, after which the largest batch has been seen: its memory is kept


@dataclass(frozen=True)
class Scale:
    """How long to measure, and with what."""

    texts: Sequence[str]
    seconds: float = 60.0  # L1; the others follow it
    requests: int = 5000  # L4


@dataclass
class Served:
    """A server process."""

    process: subprocess.Popen[bytes]
    url: str
    seconds: float  # from start to ready

    def processes(self) -> list[int]:
        """The server, then its model processes, the oldest first: that is the one at work."""
        command = ["ps", "-o", "pid=,stat=", "--sort", "start_time", "--ppid", str(self.process.pid)]
        rows = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        return [self.process.pid, *(int(row.split()[0]) for row in rows if "Z" not in row)]

    def megabytes(self, kind: str = "Pss:") -> float:
        """What all processes hold: pages they share count once (Pss), or only what is theirs (Anonymous)."""
        return sum(held(pid, "smaps_rollup", kind) for pid in self.processes()) / 1024

    def threads(self) -> int:
        return round(sum(held(pid, "status", "Threads:") for pid in self.processes()))

    def files(self) -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self.processes())


def held(pid: int, file: str, name: str) -> float:
    lines = Path(f"/proc/{pid}/{file}").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name))


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Served]:
    begun = time.monotonic()
    command = [sys.executable, "-m", "headway", "serve", str(folder), "--port", "0", *options]
    with tempfile.TemporaryFile() as log, open(log.fileno(), "rb", closefd=False, buffering=0) as reader:
        process = subprocess.Popen(command, stderr=log)
        try:
            address = ""
            while not address:
                time.sleep(0.02)
                lines = os.pread(reader.fileno(), 1 << 16, 0).splitlines()
                address = next((json.loads(line)["address"] for line in lines if b'"listening"' in line), "")
                if process.poll() is not None:
                    raise SystemExit(f"the server ended: {lines}")
            yield Served(process, address, time.monotonic() - begun)
        finally:
            if process.poll() is not None:
                print(f"the server ended with {process.returncode}: {os.pread(log.fileno(), 1 << 30, 0)[-2000:]!r}")
            process.terminate()
            process.wait()


# ---------------------------------------------------------------- rows


Row = Callable[[Served, Scale], Awaitable[dict[str, Any]]]


def told(outcome: Outcome) -> dict[str, Any]:
    return {
        "sentences/s": round(outcome.rate, 1),
        "p50": round(outcome.quantile(0.5), 3),
        "p95": round(outcome.quantile(0.95), 3),
        "p99": round(outcome.quantile(0.99), 3),
        "statuses": outcome.statuses,
    }


async def l1(server: Served, scale: Scale) -> dict[str, Any]:
    """20 clients, each waiting for its answer."""
    return told(await steady(server.url, scale.texts, lasting(scale.seconds)))


async def l2(server: Served, scale: Scale) -> dict[str, Any]:
    """Five times as many requests as can be answered; then 20 clients again."""
    before = await steady(server.url, scale.texts, lasting(max(WARM_UP, scale.seconds / 4)))
    flood = await overload(server.url, scale.texts, 5 * before.rate, scale.seconds)
    after = await steady(server.url, scale.texts, lasting(10))
    late = [sample for sample in after.good if sample.at > after.begun + 5]
    return {
        **told(flood),
        "longest": round(max(sample.seconds for sample in flood.samples), 2),
        "share of L1's rate": round(flood.rate / before.rate, 2),
        "p95 before": round(before.quantile(0.95), 3),
        "p95 5 s after": round(after.quantile(0.95, late), 3),
    }


async def l5(server: Served, scale: Scale) -> dict[str, Any]:
    """The same, each request on a connection of its own."""
    before = await steady(server.url, scale.texts, lasting(max(WARM_UP, scale.seconds / 4)))
    flood = await overload(server.url, scale.texts, 5 * before.rate, scale.seconds, kept=False)
    return {
        **told(flood),
        "longest": round(max(sample.seconds for sample in flood.samples), 2),
        "share of L1's rate": round(flood.rate / before.rate, 2),
    }


async def l3(server: Served, scale: Scale) -> dict[str, Any]:
    """500 idle connections and 50 that send their headers a byte a second, beside 20 clients."""
    alone = await steady(server.url, scale.texts, lasting(max(WARM_UP, scale.seconds / 4)))
    crowd = [asyncio.create_task(idle(server.url)) for _ in range(500)]
    crowd += [asyncio.create_task(dawdle(server.url)) for _ in range(50)]
    try:
        beside = await steady(server.url, scale.texts, lasting(max(WARM_UP, scale.seconds / 2)))
    finally:
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
    return {**told(beside), "p95 alone": round(alone.quantile(0.95), 3)}


async def l4(server: Served, scale: Scale) -> dict[str, Any]:
    """Many requests: memory, threads and files of all processes, twenty times on the way."""
    megabytes: list[float] = []
    others: list[tuple[int, int]] = []
    step = scale.requests // 20
    await steady(server.url, scale.texts, lambda done: len(done.samples) < FILLING, clients=100)
    for _ in range(20):
        outcome = await steady(server.url, scale.texts, lambda done: len(done.samples) < step)
        megabytes.append(server.megabytes("Anonymous:"))  # libraries are shared with others, who come and go
        others.append((server.threads(), server.files()))
        assert outcome.statuses.keys() == {200}, outcome.statuses
    growth, doubt = slope(megabytes)
    return {
        "requests": 20 * step,
        "MB": f"{megabytes[0]:.0f} to {megabytes[-1]:.0f}",
        "growth MB": round(megabytes[-1] - megabytes[0], 1),
        "MB per 1,000 requests": f"{1000 * growth / step:.2f} ± {1000 * doubt / step:.2f}",
        "threads": f"{others[0][0]} to {others[-1][0]}",
        "files": f"{others[0][1]} to {others[-1][1]}",
    }


async def l6(server: Served, scale: Scale) -> dict[str, Any]:  # noqa: ARG001
    """From start to ready, and what is held then; the spare process is waited for."""
    while len(server.processes()) < 3:
        await asyncio.sleep(0.1)
    await asyncio.sleep(WARM_UP)
    return {"seconds to ready": round(server.seconds, 1), "MB": round(server.megabytes())}


async def f7(server: Served, scale: Scale) -> dict[str, Any]:
    """The working process killed again and again under the load of L1."""
    over = asyncio.Event()
    load = asyncio.create_task(steady(server.url, scale.texts, lambda _: not over.is_set()))
    for _ in range(KILLS):
        await asyncio.sleep(3)
        os.kill(server.processes()[1], signal.SIGKILL)
    await asyncio.sleep(3)
    over.set()
    outcome = await load
    ends = sorted(sample.at for sample in outcome.good)
    gap = max(late - early for early, late in zip(ends, ends[1:], strict=False))
    return {**told(outcome), "kills": KILLS, "longest without an answer": round(gap, 2)}


ROWS: dict[str, Row] = {"L1": l1, "L2": l2, "L3": l3, "L4": l4, "L5": l5, "L6": l6, "F7": f7}


# ---------------------------------------------------------------- material


def random_model(folder: Path) -> tuple[Path, list[str]]:
    """A small model with random weights, and sentences of twenty of its words."""
    import random

    import torch

    from headway import config
    from headway.data.corpus import Data
    from headway.model.design import EncoderDecoderDesign
    from headway.model.feed_forward import Relu
    from headway.storage.folder import write_model
    from headway.storage.weights import weights_of
    from headway.tasks.run import Run
    from headway.text.tokenizer import Words

    dice = random.Random(0)
    words = ["".join(dice.choices("abdegiklmnorstu", k=dice.randint(2, 9))) for _ in range(9000)]
    texts = [" ".join(dice.choices(words, k=20)) for _ in range(500)]
    design = EncoderDecoderDesign(width=256, heads=4, encoder_layers=3, decoder_layers=3, feed_forward=Relu(width=1024))
    run = Run(data=Data(source="a.en", target="a.de"), text=Words(size=8000), model=design)
    tokenizer = run.text.learn([" ".join(words), *texts], ())
    torch.manual_seed(0)
    model = design.build(len(tokenizer))
    facts = {"task": "translation", "step": 0, "scores": {}}
    write_model(
        folder, weights_of(model), config.dump(run), facts, lambda place: tokenizer.save(place, "joint"), "# random\n"
    )
    return folder, texts


@contextmanager
def material(model: str, text: str) -> Iterator[tuple[Path, list[str]]]:
    with tempfile.TemporaryDirectory() as scratch:
        if model:
            lines = Path(text).read_text(encoding="utf-8").splitlines() if text else [SENTENCE]
            yield Path(model), [line for line in lines if line.strip()]
        else:
            yield random_model(Path(scratch) / "small")


SENTENCE = "A man in a blue shirt is standing on a ladder and cleaning a window of a house ."


def measure(name: str, folder: Path, scale: Scale) -> dict[str, Any]:
    """One row, on a server of its own."""

    async def run(server: Served) -> dict[str, Any]:
        if name != "L6":
            await steady(server.url, scale.texts, lasting(WARM_UP))
        return await ROWS[name](server, scale)

    with served(folder) as server:
        return asyncio.run(run(server))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.serving")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--model", default=os.environ.get("HEADWAY_MODEL", ""))
    parser.add_argument("--text", default="", help="sentences to translate, one a line")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=5000)
    given = parser.parse_args()
    with material(given.model, given.text) as (folder, texts):
        print("| row | what | found |\n|---|---|---|")
        for name in given.rows.split(","):
            found = measure(name, folder, Scale(texts, given.seconds, given.requests))
            cells = ", ".join(f"{key} {value}" for key, value in found.items())
            print(f"| {name} | {(ROWS[name].__doc__ or '').strip()} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
