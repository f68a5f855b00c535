"""Real headway processes, started fast: a parent that has imported everything forks them on request."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PARENT = """
import faulthandler, json, os, resource, sys, time
sys.path[:0] = json.loads(sys.argv[1])
import headway.cli, headway.runs.resume, headway.runs.trainer, headway.training.console, torch
import click, sacrebleu, torch._dynamo, torch.distributed.tensor, torch.distributed.fsdp
torch.set_num_threads(1)

def child(order):
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1), os.dup2(log, 2)
    os.environ.update(order["env"])
    sys.argv = ["headway", *order["arguments"]]
    if order["largest"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["largest"], order["largest"]))
    faulthandler.dump_traceback_later(100)  # of a process that hangs
    code = 1
    try:
        headway.cli.main()
    except SystemExit as error:
        code = error.code or 0
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)

def wait(pid, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None

for line in sys.stdin:
    order = json.loads(line)
    if "wait" in order:
        answer = wait(order["wait"], order["seconds"])
    else:
        answer = os.fork()
        if answer == 0:
            child(order)
    print(json.dumps(answer), flush=True)
"""


@dataclass
class Child:
    """A headway command that runs."""

    pid: int
    log: Path

    def wait(self, seconds: float = 120.0) -> int:
        """Its exit code; minus the signal's number if one killed it."""
        code = nursery().ask({"wait": self.pid, "seconds": seconds})
        if code is None:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"still running after {seconds} s: {self.said()}")
        return code

    def send(self, number: signal.Signals, after: float) -> int:
        """A signal after so many seconds; the exit code."""
        code = nursery().ask({"wait": self.pid, "seconds": after})
        if code is not None:
            return code
        os.kill(self.pid, number)
        return self.wait()

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


class Nursery:
    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "NO_COLOR": "1"}
        self.parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, json.dumps([path for path in sys.path if path])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        atexit.register(self.parent.kill)
        self.count = 0

    def ask(self, order: dict[str, Any]) -> Any:
        assert self.parent.stdin and self.parent.stdout
        print(json.dumps(order), file=self.parent.stdin, flush=True)
        return json.loads(self.parent.stdout.readline())

    def start(self, folder: Path, arguments: list[str], largest: int, environment: dict[str, str]) -> Child:
        self.count += 1
        log = folder / f"said-{os.getpid()}-{self.count}.txt"
        order = {"arguments": arguments, "env": environment, "log": str(log), "largest": largest}
        return Child(self.ask(order), log)


@cache
def nursery() -> Nursery:
    return Nursery()


def start(folder: Path, *arguments: object, largest: int = 0, **environment: str) -> Child:
    """Start a headway command. Its output lies in the folder; `largest` is the most bytes a file may have."""
    return nursery().start(folder, [str(argument) for argument in arguments], largest, environment)


def run(folder: Path, *arguments: object, largest: int = 0, **environment: str) -> tuple[int, str]:
    """The exit code of a headway command, and what it said."""
    child = start(folder, *arguments, largest=largest, **environment)
    code = child.wait()
    return code, child.said()


def wait_for(path: Path, seconds: float = 60.0) -> None:
    """Until a file or folder is there."""
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not come"
        time.sleep(0.005)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def wait_for_more(path: Path, before: int, seconds: float = 60.0) -> None:
    """Until a file has more bytes than before."""
    until = time.monotonic() + seconds
    while size(path) <= before:
        assert time.monotonic() < until, f"{path} did not grow"
        time.sleep(0.005)


def wait_for_checkpoint(folder: Path, step: int, seconds: float = 60.0) -> None:
    """Until there is one of this step or a later one."""
    until = time.monotonic() + seconds
    while not any(int(path.name[5:13]) >= step for path in (folder / "state").glob("step-????????")):
        assert time.monotonic() < until, f"{folder} did not come to step {step}"
        time.sleep(0.005)
