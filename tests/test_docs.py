"""The documents tell the truth: their code runs and prints what they say, their commands and links exist."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import torch
import typer.main

from headway.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+\.\d+")


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


def run_blocks(path: Path) -> None:
    """One after another in one program, as a reader would type them."""
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(path):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * block.line + block.code, str(path), "exec"), names)
        if block.output is not None:
            where = f"{path.name}:{block.line}"
            assert NUMBER.sub("#", printed.getvalue()) == NUMBER.sub("#", block.output), where
            said, promised = (list(map(float, NUMBER.findall(text))) for text in (printed.getvalue(), block.output))
            assert said == pytest.approx(promised, rel=0.2), where


def test_the_tour_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(list(blocks(DOCS / "tour.md"))) >= 12
    run_blocks(DOCS / "tour.md")
