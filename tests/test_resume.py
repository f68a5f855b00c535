"""Stop a run anywhere, by any means: it goes on as if nothing had happened, bit for bit."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import corpora
import fork_server
from headway.storage.folder import read_model
from headway.training.checkpoint import Checkpoints

KILLED, TERMINATED, INTERRUPTED = -9, 143, 130
EVERYTHING: dict[str, Any] = {  # all that could be forgotten between two starts
    "text": {"kind": "subword", "sampling": 0.1},
    "training": {"accumulate": 2, "steps": 20, "optimiser": {"kind": "adamw"}, "batch": {"tokens": 160}},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "everything": EVERYTHING,
    "exponential": {"training": {"averaging": {"kind": "exponential", "decay": 0.9}, "precision": "bf16"}},
    "last": {
        "training": {
            "averaging": {"kind": "last", "count": 3, "every": 4},
            "schedule": {"kind": "cosine"},
            "optimiser": {"kind": "muon"},
        },
    },
    "bounded": {
        "training": {"averaging": {"kind": "none"}, "batch": {"shapes": "bounded"}},
        "model": {"norm": {"kind": "batch"}},
    },
}


def second_corpus(folder: Path) -> dict[str, Any]:
    return {"data": {"corpora": [{**corpora.write(folder, 60, seed=1, name="more"), "weight": 1.7}]}}


def unbroken(folder: Path, *changes: Mapping[str, Any]) -> tuple[Path, Any]:
    """The configuration, and what a run that nothing disturbs leaves behind."""
    config = corpora.write_config(folder, *changes)
    code, said = fork_server.run(folder, "train", config, "--out", folder / "whole")
    assert code == 0, said
    return config, corpora.outcome(folder / "whole")


def finish(folder: Path, config: Path, out: Path) -> None:
    known = (out / "state" / "request.json").exists()  # once a run has begun, its folder is enough
    code, said = fork_server.run(folder, "train", *([] if known else [config]), "--out", out)
    assert code == 0, said
    assert corpora.unfinished(out) == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_at_random_instants(tmp_path: Path, variant: str) -> None:
    changes = (VARIANTS[variant], second_corpus(tmp_path)) if variant == "everything" else (VARIANTS[variant],)
    config, expected = unbroken(tmp_path, *changes)
    dice, out, kills = random.Random(variant), tmp_path / "killed", 0
    while kills < (10 if variant == "everything" else 3):
        child = fork_server.start(tmp_path, "train", config, "--out", out)
        code = child.send(signal.SIGKILL, after=dice.uniform(0.05, 1.2))
        assert code in (KILLED, 0), child.said()
        kills += 1
    finish(tmp_path, config, out)
    assert corpora.outcome(out) == expected


def points(folder: Path, out: Path, config: Path, stride: int, most: int) -> int:
    """Each start dies some points later than the one before. How many points were passed till nobody died."""
    turn, code = 1, KILLED
    while code == KILLED and turn < most:
        child = fork_server.start(folder, "train", config, "--out", out, HEADWAY_FAULT=f"any:{turn}:kill")
        code = child.wait()
        assert code in (KILLED, 0), child.said()
        found = Checkpoints(out / "state")
        found.newest()
        assert found.notes == []
        assert not (out / "headway.json").exists() or read_model(out).notes == []
        turn += stride
    return turn


def test_killed_at_every_point_of_the_writers(tmp_path: Path) -> None:
    """At every write, sync, rename and removal of a start (25), a publication (40) and a checkpoint (42)."""
    every = {"training": {"checkpoint_every": 1, "validate_every": 1, "steps": 50, "validation_sentences": 1}}
    config, expected = unbroken(tmp_path, every)
    out = tmp_path / "killed"
    child = fork_server.start(tmp_path, "train", config, "--out", out)
    fork_server.wait_for(out / "state" / "step-00000002")
    child.send(signal.SIGKILL, after=0.0)
    assert points(tmp_path, out, config, stride=1, most=118) == 118
    assert Checkpoints(out / "state").newest() is not None and read_model(out).notes == []
    finish(tmp_path, config, out)
    assert corpora.outcome(out) == expected


def test_killed_at_the_points_of_a_first_start(tmp_path: Path) -> None:
    config, expected = unbroken(tmp_path, {"training": {"steps": 6}})
    points(tmp_path, tmp_path / "killed", config, stride=4, most=100)
    finish(tmp_path, config, tmp_path / "killed")
    assert corpora.outcome(tmp_path / "killed") == expected


@pytest.mark.parametrize(("number", "expected_code"), [(signal.SIGTERM, TERMINATED), (signal.SIGINT, INTERRUPTED)])
def test_a_signal_saves_and_no_step_is_lost(tmp_path: Path, number: signal.Signals, expected_code: int) -> None:
    config, expected = unbroken(tmp_path, {"training": {"checkpoint_every": 1000, "validate_every": 200, "steps": 600}})
    dice, out = random.Random(number), tmp_path / "stopped"
    for _ in range(4):
        before = fork_server.size(out / "metrics.jsonl")
        child = fork_server.start(tmp_path, "train", config, "--out", out)
        fork_server.wait_for_more(out / "metrics.jsonl", before)
        code = child.send(number, after=dice.uniform(0.0, 0.1))
        ended = corpora.events(out, "end")
        assert code == expected_code, child.said()
        assert ended[-1]["step"] == corpora.checkpoints(out)[-1] and ended[-1]["exit_code"] == code
    finish(tmp_path, config, out)
    assert corpora.outcome(out) == expected


def test_a_second_signal_ends_at_once() -> None:
    program = (
        "import time\nfrom headway.training.signals import StopRequest\n"
        "with StopRequest() as stop:\n    stop.begin()\n    print('ready', flush=True)\n"
        "    while True:\n        time.sleep(0.01)\n        print(bool(stop), flush=True) if stop else None"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline() == "True\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == TERMINATED


# ---------------------------------------------------------------- bad disks


def test_a_disk_that_fails_once_is_tried_again_or_named(tmp_path: Path) -> None:
    config, expected = unbroken(tmp_path, {"training": {"steps": 12, "checkpoint_every": 4}})
    codes = []
    for number, (kind, turn) in enumerate([("enospc", 30), ("eio", 45), ("enospc", 60), ("eio", 90), ("enospc", 104)]):
        out = tmp_path / f"failed-{number}"
        code, said = fork_server.run(tmp_path, "train", config, "--out", out, HEADWAY_FAULT=f"any:{turn}:{kind}")
        assert code in (0, 3), said
        assert f"cannot write {out}" in said and ("No space" in said) == (kind == "enospc")
        codes.append(code)
        finish(tmp_path, config, out)
        assert corpora.outcome(out) == expected
    assert 0 in codes


def test_a_full_disk_stops_the_run_and_nothing_is_lost(tmp_path: Path) -> None:
    config, expected = unbroken(tmp_path, {"training": {"steps": 200, "validate_every": 200, "checkpoint_every": 1000}})
    out = tmp_path / "full"
    child = fork_server.start(tmp_path, "train", config, "--out", out)
    fork_server.wait_for(out / "state" / "step-00000000")
    child.send(signal.SIGTERM, after=0.1)
    before = corpora.checkpoints(out)
    child = fork_server.start(tmp_path, "train", "--out", out, largest=100_000)  # bytes; the weights have more
    code = child.send(signal.SIGTERM, after=0.8)
    assert code == 3, child.said()
    line = child.said().splitlines()[-1]
    assert line.startswith(f"headway: cannot write {out / 'state' / 'step-'}"[:40]) and "bytes are needed" in line
    assert corpora.checkpoints(out) == before and corpora.unfinished(out) == []
    finish(tmp_path, config, out)
    assert corpora.outcome(out) == expected


def test_a_flipped_byte_is_noticed_and_the_checkpoint_before_is_used(tmp_path: Path) -> None:
    config, expected = unbroken(tmp_path)
    out, dice = tmp_path / "rotten", random.Random(0)
    child = fork_server.start(tmp_path, "train", config, "--out", out)
    fork_server.wait_for(out / "state" / "step-00000015")
    child.send(signal.SIGKILL, after=0.0)
    older, newest = sorted((out / "state").glob("step-????????"))[-2:]
    for _ in range(50):
        path = dice.choice([path for path in newest.iterdir() if path.stat().st_size])
        sound = path.read_bytes()
        place = dice.randrange(len(sound))
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << dice.randrange(8)]) + sound[place + 1 :])
        found = Checkpoints(out / "state")
        used = found.newest()
        assert used is not None and used.path == older, path
        assert found.notes[0].startswith(f"{newest} is damaged")
        rotten, _ = path.read_bytes(), path.write_bytes(sound)
    path.write_bytes(rotten)
    code, said = fork_server.run(tmp_path, "train", "--out", out)
    assert code == 0 and f"note: {newest} is damaged" in said
    assert any(str(newest) in event["text"] for event in corpora.events(out, "note"))
    assert corpora.outcome(out) == expected


def test_two_trainers_do_not_share_a_folder(tmp_path: Path) -> None:
    config = corpora.write_config(tmp_path, {"training": {"steps": 2000}})
    child = fork_server.start(tmp_path, "train", config, "--out", tmp_path / "model")
    fork_server.wait_for(tmp_path / "model" / "state" / "step-00000000")
    code, said = fork_server.run(tmp_path, "train", "--out", tmp_path / "model")
    assert (code, f"process {child.pid}" in said) == (2, True)
    assert child.send(signal.SIGTERM, after=0.1) == TERMINATED
