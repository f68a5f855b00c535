"""Several processes train one model, as one process would."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import corpora
import nursery
from headway import config
from headway.data.order import Cursor
from headway.storage.folder import read_model
from headway.tasks.run import Run

# No biases: the gradient of a key's bias is nothing but rounding, and Adam makes steps of it.
PLAIN: dict[str, Any] = {"model": {"dropout": 0.0, "bias": False}, "training": {"steps": 8, "validate_every": 4}}


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run_ranks(folder: Path, count: int, *arguments: object) -> tuple[list[int], str]:
    """A headway command in so many processes that know each other; exit codes, and what the first one said."""
    port, ranks = free_port(), []
    for rank in range(count):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} if count > 1 else {}
        ranks.append(nursery.start(folder, *arguments, **place, **address))
    return [child.wait() for child in ranks], "".join(child.said() for child in ranks)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(folder / "model.safetensors")


def trained(folder: Path, name: str, ranks: int, *changes: Mapping[str, Any]) -> Path:
    place = folder / name
    place.mkdir()
    setting = corpora.write_config(place, PLAIN, *changes)
    codes, said = run_ranks(place, ranks, "train", setting, "--out", place / "model")
    assert codes == [0] * ranks, said
    return place / "model"


def test_ranks_see_disjoint_data_and_together_all_of_it(tmp_path: Path) -> None:
    task = config.from_dict(Run, corpora.table(tmp_path)).prepare(tmp_path / "model")
    alone, first, second = (task.stream(*place).iterate(Cursor()) for place in ((0, 1), (0, 2), (1, 2)))
    for _ in range(2 * task.stream(0, 1).count(0)):  # two epochs
        both = [next(first), next(second)]
        one = [next(alone), next(alone)]
        for ours, theirs in zip(both, one, strict=True):
            assert np.array_equal(ours.indices, theirs.indices)
        assert both[0].cursor == both[1].cursor == one[1].cursor


def test_two_ranks_equal_one_that_accumulates_twice(tmp_path: Path) -> None:
    one = trained(tmp_path, "one", 1, {"training": {"accumulate": 2}})
    two = trained(tmp_path, "two", 2)
    parts = trained(tmp_path, "parts", 2, {"training": {"fsdp": True}})
    mixed = trained(tmp_path, "mixed", 2, {"training": {"fsdp": True, "averaging": {"kind": "last", "every": 2}}})
    for other in (two, parts):
        for ours, theirs in zip(corpora.numbers(one), corpora.numbers(other), strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], abs=2e-5)
        for name, tensor in weights(one).items():
            assert torch.allclose(tensor, weights(other)[name], rtol=0, atol=1e-6), name
    assert read_model(mixed).notes == []


def test_a_sharded_run_goes_on_bit_for_bit_and_loads_anywhere(tmp_path: Path) -> None:
    shard = {"training": {"fsdp": True, "steps": 12}, "model": {"dropout": 0.1}}
    whole = trained(tmp_path, "whole", 2, shard)
    out = tmp_path / "cut" / "model"
    out.parent.mkdir()
    setting = corpora.write_config(out.parent, PLAIN, shard)
    port = free_port()
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    children = [
        nursery.start(out.parent, "train", setting, "--out", out, RANK=str(rank), LOCAL_RANK=str(rank), **place)
        for rank in range(2)
    ]
    nursery.wait_for(out / "state" / "step-00000006")
    for child in children:
        child.send(signal.SIGKILL, after=0.0)
    codes, said = run_ranks(out.parent, 2, "train", "--out", out)
    assert codes == [0, 0], said
    assert corpora.outcome(out) == corpora.outcome(whole)
    codes, said = run_ranks(out.parent, 1, "train", "--out", out, "--steps", 14)  # the same checkpoint, alone
    assert codes == [0], said
    assert [event["step"] for event in corpora.events(out, "step")] == [4, 8, 12, 14]


def test_another_number_of_ranks_goes_on_at_the_same_place_and_says_so(tmp_path: Path) -> None:
    out = trained(tmp_path, "two", 2)
    before = json.loads((out / "state" / "step-00000008" / "facts.json").read_text())
    task = config.load(Run, out / "config.toml").prepare(out)
    stream = task.stream(0, 1).iterate(Cursor(**before["cursor"]))
    codes, said = run_ranks(out.parent, 1, "train", "--out", out, "--steps", 11)
    assert codes == [0] and "note: going on at the same place in the data, but with processes 2 -> 1" in said
    assert "not bit for bit" in corpora.events(out, "note")[-1]["text"]
    expected = [next(stream) for _ in range(3)]
    after = json.loads((out / "state" / "step-00000011" / "facts.json").read_text())
    assert after["cursor"] == vars(expected[-1].cursor)
    assert corpora.events(out, "step")[-1]["tokens"] == sum(batch.tokens for batch in expected)


def test_a_rank_that_dies_is_started_again_by_torchrun(tmp_path: Path) -> None:
    steps = {"training": {"steps": 60, "checkpoint_every": 2}, "model": {"dropout": 0.1}}
    whole = trained(tmp_path, "whole", 2, steps)
    place = tmp_path / "dying"
    place.mkdir()
    out, setting = place / "model", corpora.write_config(place, PLAIN, steps)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "3"]
    command += ["--master-port", free_port(), "-m", "headway", "train", str(setting), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with (place / "said").open("wb") as said:
        ranks = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
    for step in (4, 24):
        nursery.wait_for_checkpoint(out, step)
        os.kill(rank_of(ranks.pid, step % 3), signal.SIGKILL)
    assert ranks.wait(120) == 0, (place / "said").read_text()
    assert corpora.outcome(out) == corpora.outcome(whole)


def rank_of(parent: int, number: int) -> int:
    """The process number of one of torchrun's children."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(children[number % len(children)])
