"""Tests can fail: no assertion is about a list or a tuple itself, which is true unless it is empty."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = sorted(Path(__file__).parent.glob("*.py"))
DISPLAYS = (ast.List, ast.ListComp, ast.Tuple, ast.GeneratorExp, ast.Lambda, ast.JoinedStr)


def always_true(code: str) -> list[int]:
    """Return the lines of assertions about a display, and of loops over an empty one."""
    nodes = list(ast.walk(ast.parse(code)))
    asserted = [node.lineno for node in nodes if isinstance(node, ast.Assert) and isinstance(node.test, DISPLAYS)]
    loops = [node for node in nodes if isinstance(node, ast.For) and isinstance(node.iter, ast.List | ast.Tuple)]
    return asserted + [node.lineno for node in loops if not node.iter.elts]  # pyright: ignore[reportAttributeAccessIssue]


def test_assertions_that_cannot_fail_are_found() -> None:
    code = "assert [x > 1 for x in y]\nassert (x, y)\nassert all([x])\nfor x in ():\n    assert x\nassert [x] == y"
    assert always_true(code) == [1, 2, 4]


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_every_assertion_can_fail(path: Path) -> None:
    assert always_true(path.read_text(encoding="utf-8")) == []
