"""Memory of training does not depend on the size of the corpus."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import corpora

MILLION = 1_000_000
BLOCK = 10_000
SLACK = 50  # MB


def write(folder: Path, pairs: int) -> tuple[Path, Path]:
    """Sentences and their words backwards, without keeping them."""
    dice, paths = random.Random(0), (folder / f"{pairs}.a", folder / f"{pairs}.b")
    words = ["".join(dice.choices(corpora.SYLLABLES, k=dice.randint(1, 4))) for _ in range(3000)]
    with paths[0].open("w") as source, paths[1].open("w") as target:
        for _ in range(pairs // BLOCK):
            block = [dice.choices(words, k=dice.randint(3, 7)) for _ in range(BLOCK)]
            source.writelines(f"{' '.join(line)}\n" for line in block)
            target.writelines(f"{' '.join(reversed(line))}\n" for line in block)
    return paths


def peak(folder: Path, pairs: int) -> float:
    """The most memory that preparing and training took, in MB."""
    source, target = write(folder, pairs)
    settings = {key: value for key, value in corpora.flat(corpora.TINY).items() if key != "training.steps"}
    overrides = [f"--set={key}={value}" for key, value in settings.items()]
    files = ["--source", source, "--target", target, "--out", folder / f"model-{pairs}"]
    command = [sys.executable, "-m", "headway", "train", *files, *overrides, "--set=text.size=2000", "--steps=200"]
    child = subprocess.Popen(
        list(map(str, command)), env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return used.ru_maxrss / 1024


@pytest.mark.slow
def test_ten_million_pairs_take_no_more_memory_than_one_million(tmp_path: Path) -> None:
    few, many = (peak(tmp_path, pairs) for pairs in (MILLION, 10 * MILLION))
    print(f"peak memory: {few:.0f} MB at 1,000,000 pairs, {many:.0f} MB at 10,000,000")
    assert abs(many - few) < SLACK
