"""A new task costs one folder and one word where the tasks are listed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import headway

HERE, PACKAGE = Path(__file__).parent, Path(headway.__file__).parent
COMMANDS = """
import json, sys
from pathlib import Path
from typer.testing import CliRunner
from headway.cli import app
from headway.serve.model_handlers import ModelHandlers

def call(*words):
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})
    assert result.exit_code == 0, (words, result.output, repr(result.exception))
    return result.stdout

found = {
    "train": call("train", "run.toml", "--out", "model", "--device", "cpu"),
    "predict": call("predict", "model", "--input", "text", "--device", "cpu"),
    "evaluate": call("evaluate", "model", "text", "--device", "cpu"),
    "describe": call("describe", "model"),
    "look": call("look", "model", "a dog runs", "--json", "trace.json", "--device", "cpu"),
    "saved": call("look", "trace.json"),
}
options = {"device": "cpu", "engine": "auto", "precision": "auto", "workers": 1}
handlers = ModelHandlers({"model": Path("model")}, options, print)
found["facts"] = handlers.facts()[0]
found["served"] = handlers.answer({"act": "predict", "model": "model", "texts": ["a dog"]}, lambda: False)
Path("found.json").write_text(json.dumps(found))
"""
RUN = """
task = { kind = "parity" }
[data]
kind = "files"
train = "text"
[model]
kind = "encoder"
width = 16
heads = 2
layers = 1
[training]
steps = 2
"""


def with_idea(folder: Path, module: str, idea: Path, family: Path, before: str, after: str) -> None:
    """Copy the package, add one file to it, and add the word to the list of its family."""
    copy = folder / "headway"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    place = copy / module
    place.parent.mkdir(exist_ok=True)
    shutil.copy(idea, place)
    text = (copy / family).read_text(encoding="utf-8")
    assert text.count(before) == 1
    (copy / family).write_text(text.replace(before, after), encoding="utf-8")


def test_a_task_is_one_folder_and_one_word(tmp_path: Path) -> None:
    word = "Task = Translation | "
    added = f"from headway.tasks.parity.task import Parity\n\nTask = Parity | {word.removeprefix('Task = ')}"
    with_idea(tmp_path, "tasks/parity/task.py", HERE / "ideas" / "parity.py", Path("tasks/run.py"), word, added)
    lines = [" ".join(["a", "dog", "runs", "home", "by", "Anna"][: 1 + i % 6]) for i in range(60)]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "run.toml").write_text(RUN, encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    answers = found["predict"].splitlines()
    assert len(answers) == len(lines) and set(answers) <= {"even", "odd"}
    right = sum(answer == ("even", "odd")[len(line.split()) % 2] for answer, line in zip(answers, lines, strict=True))
    assert f"{100 * right / len(lines):.2f}" in found["evaluate"]
    assert "encoder" in found["describe"]
    assert found["facts"]["task"] == "parity" and found["served"][0]["text"] in ("even", "odd")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["kind"] == "parity" and found["saved"].strip() == trace["answer"]
