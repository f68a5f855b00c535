"""The files in recipes/ are what they say: they parse, they build, and the commands in them exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main

from headway import config
from headway.cli import app
from headway.data.catalogue import read
from headway.data.corpus import Data
from headway.tasks.run import Run
from headway.tasks.translation.task import Translation
from headway.training.plan import propose

FILES = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
WANTED = """
multi30k-en-de multi30k-de-en multi30k-en-fr tatoeba-en-de tatoeba-de-en tatoeba-en-fr tatoeba-fr-en tatoeba-en-zh
tatoeba-zh-en msctd-en-zh 3am-en-zh python-docs-en-zh cmudict inflection scan parsing dialogue
"""


def typed(path: Path) -> list[list[str]]:
    """The commands in the comment at the top."""
    head = path.read_text(encoding="utf-8").split("\n\n")[0].replace("\\\n#", " ")
    return [shlex.split(line.split("  (")[0]) for line in re.findall(r"^#   (headway .*)$", head, re.MULTILINE)]


def test_all_are_there() -> None:
    assert set(WANTED.split()) <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recipe_builds(path: Path) -> None:
    """Also with other files than those it names, which is how most people will use it."""
    run = config.load(Run, path)
    side = "source" if isinstance(run.data, Data) else "train"
    other = config.load(Run, path, [f"data.{side}=mine.txt"])
    assert getattr(other.data, side) == "mine.txt" and other.model == run.model
    with torch.device("meta"):
        model = run.model.build(400)
    assert sum(parameter.numel() for parameter in model.parameters()) > 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_commands_exist(path: Path) -> None:
    commands = typed(path)
    assert any(words[1] == "train" and words[2] == f"recipes/{path.name}" for words in commands)
    for _, name, *rest in commands:
        command = COMMANDS[name]
        command = command.commands[rest[0]] if hasattr(command, "commands") else command
        known = {option for param in command.params for option in param.opts}
        assert {word for word in rest if word.startswith("--")} <= known


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_it_fetches_is_what_it_reads(path: Path) -> None:
    run = config.load(Run, path)
    for corpus in [words[3] for words in typed(path) if words[1:3] == ["data", "get"]]:
        texts = {f"{corpus}/{name}" for name in read().find(corpus).texts}
        assert isinstance(run.data, Data)
        named = (run.data.source, run.data.target, run.data.dev_source, run.data.dev_target)
        assert {name for name in named if name} <= texts


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recipe_is_the_same_on_every_machine(path: Path) -> None:
    """Whatever it and the size of the corpus would suggest to the plan."""
    table = config.read_toml(path)
    if not isinstance(config.from_dict(Run, table).task, Translation):
        pytest.skip("the plan of translators")
    sizes = [(torch.device(device), pairs) for device in ("cpu", "cuda") for pairs in (1000, 30_000, 10**7)]
    first, *others = (config.from_dict(Run, propose(table, pairs, device)) for device, pairs in sizes)
    assert all((one.model, one.training, one.task) == (first.model, first.training, first.task) for one in others)
