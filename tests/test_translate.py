"""headway translate: one line out for every line in, and on again after a kill."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from compiled import require_kernel
from models import TEXT, random_folder

LINES = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "in.txt"
    chosen = random.Random(0)
    path.write_text("".join(f"{chosen.choice([*TEXT, ''])} {i}\n" for i in range(LINES)), encoding="utf-8")
    return path


def headway(*words: object, text: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "headway", *map(str, words)]
    return subprocess.run(command, input=text, capture_output=True, timeout=300, check=False)


def test_standard_input_to_standard_output(folder: Path) -> None:
    done = headway("translate", folder, "--beam", 1, "--engine", "torch", text=b"a dog\n\ntwo men\n")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().split("\n")
    assert len(lines) == 4 and lines[1] == "" and lines[3] == ""
    assert done.stderr.decode().splitlines()[0] == "headway: engine torch (fp32): it was asked for"


def test_a_faster_engine_that_cannot_run_is_named_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("PATH", "")
    done = headway("translate", folder, "--beam", 1, text=b"a dog\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(b"headway: engine ") and b"native cannot be used: no C++ compiler" in done.stderr
    assert done.stderr.count(b"headway: engine ") == 1


def test_the_fastest_engine_is_not_worth_a_word(folder: Path) -> None:
    require_kernel()
    assert headway("translate", folder, "--beam", 1, "--device", "cpu", text=b"a dog\n").stderr.count(b"engine") == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_cuda_on_a_machine_without_it(folder: Path) -> None:
    done = headway("translate", folder, "--engine", "cuda", text=b"a dog\n")
    assert done.returncode == 2 and done.stdout == b""
    assert b"engine cuda cannot be used" in done.stderr and b"no CUDA device on this machine" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("extra", [(), ("--n-best", 2, "--beam", 2)])
def test_a_killed_translation_goes_on_byte_for_byte(
    folder: Path, source: Path, tmp_path: Path, extra: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_WINDOW", "20")
    words = ("translate", folder, "--input", source, "--beam", 1, "--engine", "torch", *extra)
    whole = tmp_path / "whole.txt"
    assert headway(*words, "--output", whole).returncode == 0
    broken = tmp_path / "broken.txt"
    chosen = random.Random(1)
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-m", "headway", *map(str, (*words, "--output", broken, "--resume"))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = broken.stat().st_size if broken.exists() else 0
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if broken.exists() and broken.stat().st_size > until + chosen.randrange(1, 600):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if broken.exists():  # a torn last row, as a power cut would leave it
            data = broken.read_bytes()
            broken.write_bytes(data[: max(0, len(data) - chosen.randrange(0, 5))])
    assert headway(*words, "--output", broken, "--resume").returncode == 0
    assert broken.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("words", "text", "code", "said"),
    [
        (("translate", "nowhere"), b"a\n", 2, b"nowhere is not a folder"),
        (("translate", "FOLDER"), b"a\nb\xff\n", 2, b"line 2: not UTF-8"),
        (("translate", "FOLDER"), b"x" * (1 << 20) + b"y\n", 2, b"line 1: longer than"),
        (("translate", "FOLDER", "--beam", 0), b"a\n", 2, b"beam is 0"),
        (("translate", "FOLDER", "--fast", "--best"), b"a\n", 2, b"choose one"),
        (("translate", "FOLDER", "--confidence", 2), b"a\n", 2, b"from 0 to 1"),
        (("translate", "FOLDER", "--resume"), b"a\n", 2, b"--resume needs"),
        (("translate", "FOLDER", "--input", "missing.txt"), b"", 2, b"missing.txt"),
        (("translate", "FOLDER", "--glossary", "missing.tsv"), b"a\n", 2, b"missing.tsv"),
        (("translate", "FOLDER", "--keep", "%s", "--keep", "(a"), b"a\n", 2, b"keep '(a': no regular expression"),
        (("translate", "nowhere", "--keep", "a*"), b"a\n", 2, b"keep 'a*': it matches an empty text"),
        (("translate", "FOLDER", "--to", "xx"), b"a\n", 2, b"'xx' is not in this model"),
        (("translate",), b"a\n", 2, b"say which, such as --to de"),
    ],
)
def test_mistakes_are_one_line(folder: Path, words: tuple[object, ...], text: bytes, code: int, said: bytes) -> None:
    done = headway(*(folder if word == "FOLDER" else word for word in words), text=text)
    assert done.returncode == code, done.stderr
    assert said in done.stderr and done.stderr.count(b"\n") == 1 and b"Traceback" not in done.stderr


def test_an_output_that_exists_is_not_overwritten(folder: Path, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    out.write_text("mine")
    done = headway("translate", folder, "--input", source, "--output", out)
    assert done.returncode == 2 and b"exists" in done.stderr and out.read_text() == "mine"


def test_unsure_lines_are_left_empty(folder: Path) -> None:
    done = headway("translate", folder, "--beam", 1, "--confidence", 1, "--engine", "torch", text=b"a dog\n")
    assert done.stdout == b"\n" and b"1 lines left empty" in done.stderr


def test_what_patterns_match_is_kept(folder: Path) -> None:
    words = ("translate", folder, "--keep", r"\{\w+\}", "--keep", "%[sd]", "--engine", "torch")
    done = headway(*words, text="a dog {run_龘} through %s snow\n\ntwo men\n".encode())
    first, empty, _, _ = done.stdout.decode().split("\n")
    assert "{run_龘}" in first and "%s" in first and empty == "" and b"lack" not in done.stderr


def test_scores_are_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a dog\nb\n")
    (tmp_path / "t").write_text("ein Hund\nc\n")
    done = headway("score", folder, "--source", tmp_path / "s", "--target", tmp_path / "t")
    rows = done.stdout.decode().split("\n")
    assert len(rows) == 3 and all(float(x) <= 0 for row in rows[:2] for x in row.split("\t"))
