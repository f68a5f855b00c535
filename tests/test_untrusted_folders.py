"""A model folder from a stranger: nothing in it is run, and nothing is written into it or through its links."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import torch

from headway.engines.native import build
from headway.errors import UsageError
from headway.exchange.pickles import load_pickle
from headway.metrics.comet import run_comet
from headway.tasks.material import Tokenizers
from model_folders import TEXT, random_folder, snapshot
from serving import running

PACKAGES = {
    "click", "ctranslate2", "fastapi", "filelock", "jaxtyping", "lxml", "matplotlib", "multipart", "numpy",
    "prometheus_client", "py3langid", "pydantic", "rich", "sacrebleu", "safetensors", "sentencepiece", "sitecustomize",
    "starlette", "sympy", "torch", "transformers", "triton", "typer", "usercustomize", "uvicorn",
}  # fmt: skip
NAMES = {*sys.stdlib_module_names, *PACKAGES, "headway"}

# As the program `headway` does it, which lies in a folder of its own; several commands in one process, to be quick.
DRIVER = """
import json, subprocess, sys
from headway import cli

for words in json.loads(sys.argv[1]):
    sys.argv = ["headway", *words]
    try:
        cli.main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{words}: {end.code}")
subprocess.run([sys.executable, "-c", "import queue"], check=True)  # as libraries start processes
"""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with a module of every name; each notes in `ran`, beside the folder, that it was run.

    A newer model seems to be on its way to its place, and the lock that its writer would take is a link.
    """
    folder = random_folder(tmp_path_factory.mktemp("stranger") / "model")
    random_folder(folder / ".pending", seed=1)
    (folder.parent / "victim").write_text("precious")
    (folder / ".lock").symlink_to(folder.parent / "victim")
    event = {"event": "step", "step": 1, "seconds": 1.0, "time": 1.0, "loss": 2.0}
    (folder / "metrics.jsonl").write_text(json.dumps(event) + "\n")
    (folder.parent / "text").write_text("".join(f"{text}\n" for text in TEXT[:3]))
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(folder.parent / 'ran')!r}, 'a').write('{name} ')\n")
    return folder


def ran(stranger: Path) -> str:
    path = stranger.parent / "ran"
    found = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    return found


def without(names: set[str], folder: Path) -> None:
    for name in names:
        (folder / f"{name}.py").unlink(missing_ok=True)


def test_the_modules_would_be_run(stranger: Path) -> None:
    """By a Python that imports from the current folder, which all tests here rely on."""
    for code in ("import queue", "import numpy"):
        subprocess.run([sys.executable, "-c", code], cwd=stranger, check=True)
    assert ran(stranger) == "queue numpy "


def test_commands_run_nothing_of_the_current_folder(stranger: Path) -> None:
    text, engine = ["--source", "../text"], ["--engine", "torch"]
    commands = [
        ["translate", ".", "--input", "../text", "--output", "../said", *engine],
        [
            "evaluate",
            ".",
            *text,
            "--reference",
            "../text",
            "--resamples",
            "10",
            "--html",
            "../evaluation.html",
            *engine,
        ],
        ["score", ".", *text, "--target", "../text"],
        ["look", ".", TEXT[0], "--html", "../look.html", "--beam"],
        ["look", ".", "--embeddings", "--json", "../embeddings.json"],
        ["heads", ".", *text],
        ["predict", ".", "--input", "../text", "--json"],
        ["distill", ".", *text, "--out", "../distilled", *engine],
        ["augment", ".", "--target", "../text", "--out", "../augmented", *engine],
        ["plot", ".", "--out", "../curves.html"],
        ["describe", "."],
        ["export", ".", "--to", "headway-int8", "--out", "../int8"],
    ]
    program = stranger.parent / "program" / "headway.start"
    program.parent.mkdir()
    program.write_text(DRIVER)
    before = snapshot(stranger)
    done = subprocess.run(
        [sys.executable, str(program), json.dumps(commands)], cwd=stranger, capture_output=True, text=True, check=False
    )
    assert (done.returncode, ran(stranger)) == (0, ""), done.stderr
    assert snapshot(stranger) == before and (stranger.parent / "victim").read_text() == "precious"


def test_a_server_and_its_processes_run_nothing_of_the_current_folder(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started by `python -m`, which by itself looks for a few modules in the current folder before it comes to ours."""
    code = "import runpy, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-P", "-c", code], text=True).split()
    without({"headway", *loaded}, stranger)
    monkeypatch.chdir(stranger)
    before = snapshot(stranger)
    with running(".", "--engine", "torch", "--spares", "0") as server:
        body = json.dumps({"q": TEXT[0], "source": "en", "target": "de"}).encode()
        request = urllib.request.Request(f"{server.url}/translate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert "translatedText" in json.load(answer)
    assert ran(stranger) == "" and snapshot(stranger) == before
    assert (stranger.parent / "victim").read_text() == "precious"


# ---------------------------------------------------------------- other children


def test_a_compiler_takes_nothing_from_the_current_folder(
    stranger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty part of CPATH or PATH means the current folder."""
    (tmp_path / "kernel").mkdir()
    toy = '#include <cstdint>\nextern "C" int headway_check(int) { return 0; }'
    (tmp_path / "kernel" / "native.cpp").write_text(toy)
    (stranger / "cstdint").write_text("#error of a stranger")
    (stranger / "c++").write_text(f"#!/bin/sh\necho compiler >> {stranger.parent / 'ran'}\nexit 1\n")
    (stranger / "c++").chmod(0o755)
    monkeypatch.setattr(build, "KERNEL", tmp_path / "kernel")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CPATH", ":")
    monkeypatch.setenv("PATH", f":.:{os.environ['PATH']}")
    monkeypatch.chdir(stranger)
    build.outcome.cache_clear()
    try:
        assert build.library().headway_check(0) == 0
    finally:
        build.outcome.cache_clear()
    assert ran(stranger) == ""


def test_trials_of_files_run_nothing_of_the_current_folder(
    stranger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save({"weight": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    monkeypatch.chdir(stranger)
    assert load_pickle(tmp_path / "pytorch_model.bin")["weight"].tolist() == [1.0, 1.0]
    assert len(Tokenizers.load(Path()).source) > 100
    with pytest.raises(UsageError, match="its scores cannot be read"):
        run_comet(f"{sys.executable} -c 'import queue'", ["a"], ["b"], ["c"])
    assert ran(stranger) == ""
