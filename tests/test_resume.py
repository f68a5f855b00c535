"""Stop a run anywhere, by any means: it goes on as if nothing had happened, bit for bit."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import corpora
import nursery
import pytest

from headway.errors import EXIT_CODES
from headway.folder import read_model
from headway.training.checkpoint import Checkpoints
from headway.training.manifest import read_checkpoint

KILLED, TERMINATED, INTERRUPTED = -9, 143, 130
EVERYTHING: dict[str, Any] = {  # all that could be forgotten between two starts
    "text": {"kind": "subword", "sampling": 0.1},
    "training": {"accumulate": 2, "steps": 20, "optimiser": {"kind": "adamw"}, "batch": {"tokens": 160}},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "everything": EVERYTHING,
    "exponential": {"training": {"averaging": {"kind": "exponential", "decay": 0.9}, "precision": "bf16"}},
    "last": {"training": {"averaging": {"kind": "last", "count": 3, "every": 4}, "schedule": {"kind": "cosine"}}},
    "bounded": {"training": {"averaging": {"kind": "none"}, "batch": {"shapes": "bounded"}}, "model": {"norm": {"kind": "batch"}}},
}  # fmt: skip


def second_corpus(folder: Path) -> dict[str, Any]:
    return {"data": {"corpora": [{**corpora.write(folder, 60, seed=1, name="more"), "weight": 1.7}]}}


def unbroken(folder: Path, *changes: Mapping[str, Any]) -> tuple[Path, Any]:
    """The configuration, and what a run that nothing disturbs leaves behind."""
    config = corpora.write_config(folder, *changes)
    code, said = nursery.run(folder, "train", config, "--out", folder / "whole")
    assert code == 0, said
    return config, corpora.outcome(folder / "whole")


def finish(folder: Path, config: Path, out: Path) -> None:
    known = (out / "state" / "request.json").exists()  # once a run has begun, its folder is enough
    code, said = nursery.run(folder, "train", *([] if known else [config]), "--out", out)
    assert code == 0, said
    assert corpora.unfinished(out) == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_at_random_instants(tmp_path: Path, variant: str) -> None:
    changes = (VARIANTS[variant], second_corpus(tmp_path)) if variant == "everything" else (VARIANTS[variant],)
    config, expected = unbroken(tmp_path, *changes)
    dice, out, kills = random.Random(variant), tmp_path / "killed", 0
    while kills < (10 if variant == "everything" else 3):
        child = nursery.start(tmp_path, "train", config, "--out", out)
        code = child.send(signal.SIGKILL, after=dice.uniform(0.05, 1.2))
        assert code in (KILLED, 0), child.said()
        kills += 1
    finish(tmp_path, config, out)
    assert corpora.outcome(out) == expected


def test_killed_at_every_point_of_the_writers(tmp_path: Path) -> None:
    """Each start dies one point later than the one before: at some time every write, sync, rename and removal."""
    config, expected = unbroken(tmp_path, {"training": {"checkpoint_every": 1, "validate_every": 3, "steps": 60}})
    out, turn, code = tmp_path / "killed", 0, KILLED
    while code == KILLED:
        turn += 1
        child = nursery.start(tmp_path, "train", config, "--out", out, HEADWAY_FAULT=f"any:{turn}:kill")
        code = child.wait()
        assert code in (KILLED, 0), child.said()
        sound = Checkpoints(out / "state")
        assert (sound.newest() is not None or turn < 60) and sound.notes == []
        if (out / "headway.json").exists():
            assert read_model(out).notes == []
    assert turn > 150  # a save has about 40 points, and so has publishing
    assert corpora.outcome(out) == expected


@pytest.mark.parametrize(("number", "expected_code"), [(signal.SIGTERM, TERMINATED), (signal.SIGINT, INTERRUPTED)])
def test_a_signal_saves_and_no_step_is_lost(tmp_path: Path, number: signal.Signals, expected_code: int) -> None:
    config, expected = unbroken(tmp_path, {"training": {"checkpoint_every": 1000, "steps": 40}})
    dice, out, code, stops = random.Random(number), tmp_path / "stopped", -1, 0
    while code != 0:
        child = nursery.start(tmp_path, "train", config, "--out", out)
        nursery.wait_for(out / "state" / "step-00000000") if code == -1 else None
        code = child.send(number, after=dice.uniform(0.1, 0.9))
        assert code in (expected_code, 0), child.said()
        assert expected_code in EXIT_CODES
        if code and (ended := corpora.events(out, "end")):
            assert ended[-1]["step"] == corpora.checkpoints(out)[-1] and ended[-1]["exit_code"] == code
            stops += 1
    assert stops > 1
    assert corpora.outcome(out) == expected
