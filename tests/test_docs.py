"""The documents tell the truth: their code runs and prints what they say, their commands and links exist."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
import typer.main

from headway.cli import app
from headway.data.corpus import Data
from headway.recipes import tiny
from headway.runs.trainer import Trainer
from headway.tasks.run import Run
from headway.text.tokenizer import Characters
from headway.training.ranks import Ranks
from headway.training.settings import Training
from headway.training.signals import StopRequest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+\.\d+")
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]


class Block(NamedTuple):
    """A piece of code, and what it should print; None where the page does not say."""

    line: int
    code: str
    output: str | None


def fences(path: Path) -> list[tuple[int, str, str]]:
    text = path.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start()) + 1, found[1], found[2]) for found in FENCE.finditer(text)]


def blocks(path: Path) -> Iterator[Block]:
    found = fences(path)
    for (line, kind, code), (_, next_kind, following) in zip(found, [*found[1:], (0, "", "")], strict=True):
        if kind == "python":
            yield Block(line, code, following if next_kind == "text" else None)


def run_blocks(path: Path) -> str:
    """One after another in one program, as a reader would type them; the last one's output."""
    names: dict[str, object] = {"__name__": "page"}
    said = ""
    for block in blocks(path):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * block.line + block.code, str(path), "exec"), names)
        said = printed.getvalue()
        if block.output is not None:
            compare(said, block.output, f"{path.name}:{block.line}")
    return said


def compare(said: str, promised: str, where: str) -> None:
    """Words and whole numbers are the same on every machine; fractions nearly."""
    assert NUMBER.sub("#", said) == NUMBER.sub("#", promised), where
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (said, promised)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.2), where


# ---------------------------------------------------------------- code


def test_the_tour_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(list(blocks(DOCS / "tour.md"))) >= 12
    run_blocks(DOCS / "tour.md")


def test_the_page_on_language_models_can_be_followed() -> None:
    assert run_blocks(DOCS / "language-model.md")


def test_the_readme_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program opens a model named en-de: any will do."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.en", "train.de"):
        Path(name).write_text("A dog runs.\nTwo men are talking.\n", encoding="utf-8")
    data = Data(source="train.en", target="train.de", dev_source="train.en", dev_target="train.de")
    run = Run(data=data, text=Characters(), model=tiny(), training=Training(steps=1, precision="fp32"))
    list(Trainer(run, Path("en-de"), torch.device("cpu"), Ranks()).events(StopRequest()))
    assert len(run_blocks(ROOT / "README.md").splitlines()) == 2


def test_the_part_in_contributing_is_the_real_one() -> None:
    real = (ROOT / "src/headway/model/positions/rotary.py").read_text(encoding="utf-8")
    quoted = [block.code for block in blocks(ROOT / "CONTRIBUTING.md")]
    assert quoted
    assert all(code in real for code in quoted)


# ---------------------------------------------------------------- commands


def typed(path: Path) -> Iterator[list[str]]:
    """What a page tells people to type that begins with headway, from blocks and from running text."""
    text = path.read_text(encoding="utf-8")
    lines = [line for _, kind, code in fences(path) if kind == "sh" for line in code.splitlines()]
    lines += re.findall(r"`(headway [^`\n]+)`", FENCE.sub("", text))
    for line in lines:
        for part in re.split(r"[|;]|&&", line.split("#")[0].split(">")[0]):
            words = shlex.split(part)
            if words[:1] == ["headway"] and len(words) > 1:
                yield words[1:]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_name_only_commands_and_options_that_exist(path: Path) -> None:
    for command, *rest in typed(path):
        if command.startswith(("-", "[")):
            continue
        assert command in COMMANDS, f"headway {command} in {path.name}"
        chosen = COMMANDS[command]
        for word in rest[:1] if hasattr(chosen, "commands") else ():  # a group: its first word is a command too
            assert word in chosen.commands, f"headway {command} {word} in {path.name}"
            chosen = chosen.commands[word]
        known = {name for param in chosen.params for name in (*param.opts, *param.secondary_opts)}
        used = {word.split("=")[0] for word in rest if word.startswith("--")}
        assert used <= known | {"--help"}, f"headway {command} {' '.join(rest)} in {path.name}"


def test_the_readme_names_every_command() -> None:
    named = {words[0] for words in typed(ROOT / "README.md")}
    assert set(COMMANDS) <= named


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        assert {
            *re.findall(r"`make (\w[\w-]*)`", text),
            *re.findall(r"^make (\w[\w-]*)", text, re.MULTILINE),
        } <= targets


# ---------------------------------------------------------------- what is generated


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    spec = importlib.util.spec_from_file_location("build", DOCS / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_link_is_broken(build: ModuleType) -> None:
    assert build.broken_links() == []


def test_a_new_page_is_added_to_the_index(build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.md").write_text("# All\n[one](a.md)\n<!-- others -->\n<!-- end -->\n", encoding="utf-8")
    for name in ("a", "b"):
        (tmp_path / f"{name}.md").write_text(f"# Page {name}\n", encoding="utf-8")
    monkeypatch.setattr(build, "DOCS", tmp_path)
    build.complete_index()
    build.complete_index()
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert text.count("- [Page b](b.md)") == 1
    assert "Page a" not in text


def test_a_broken_link_is_found(build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("# One\n[x](b.md) [y](#two) [z](#one) [w](https://example.org)\n", encoding="utf-8")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "DOCS", tmp_path / "docs")
    assert build.broken_links() == ["a.md: b.md does not exist", "a.md: #two names no heading"]


def test_the_reference_covers_commands_and_settings(build: ModuleType) -> None:
    commands, reference = build.cli_page(), build.reference_page()
    assert all(f"## headway {name}\n" in commands for name in COMMANDS)
    assert all(f"`{name}`" in reference for name in ("learning_rate", "encoder_layers", "dev_source", "Translation"))
    assert "number of decoder layers" in reference  # a comment beside a field


@pytest.mark.parametrize("name", ["cli.md", "reference.md"])
def test_the_reference_is_fresh(name: str, build: ModuleType) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == build.WRITTEN[name](), "run `make docs`"


def test_the_site_stands_alone(build: ModuleType, tmp_path: Path) -> None:
    assert build.site(tmp_path) == len(PAGES)
    text = (tmp_path / "readme.html").read_text(encoding="utf-8")
    assert 'href="tour.html"' in text
    assert not re.findall(r'src="(?!data:)', text)
