"""What messages advise can be typed: each option that one names exists where the message is shown."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from headway.cli import app

SOURCE = Path(__file__).parent.parent / "src" / "headway"
OTHERS = {"--help", "--max-restarts"}  # of every command, of torchrun
SHARED = {"file_translation.py": ("translate", "predict")}  # what it says must be right for each of them
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]


def leaves(command: Any) -> list[Any]:
    return (
        [leaf for one in command.commands.values() for leaf in leaves(one)]
        if hasattr(command, "commands")
        else [command]
    )


def options(*commands: Any) -> set[str]:
    return {name for one in commands for leaf in leaves(one) for param in leaf.params for name in param.opts}


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every message that an error carries; what is filled in is left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if not node.func.id.endswith(("Error", "complain")):
            continue
        texts = [
            part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
        yield node.lineno, " ".join(texts)


def named(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text))


def shown_by(path: Path) -> list[Any]:
    """The commands that show what a file of `commands` says; all of them for the rest of the package."""
    defined = [one for one in COMMANDS.values() if getattr(one, "callback", None) and path == where(one)]
    return defined if path.parent.name == "commands" and defined else list(COMMANDS.values())


def where(command: Any) -> Path:
    return Path(inspect.getfile(inspect.unwrap(command.callback)))


FILES = sorted(path for path in SOURCE.rglob("*.py") if any(named(text) for _, text in messages(path)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_messages_name_only_options_that_exist(path: Path) -> None:
    for line, text in messages(path):
        known = options(*shown_by(path)) | OTHERS
        for command in SHARED.get(path.name, ()):
            known &= options(COMMANDS[command])
        for command, rest in re.findall(r"headway (\w+)((?: --[a-z-]+)+)", text):
            assert command in COMMANDS and named(rest) <= options(COMMANDS[command]), f"{path.name}:{line}: {text}"
            text = text.replace(f"headway {command}{rest}", "")
        assert named(text) <= known, f"{path.name}:{line}: {text}"


def test_the_messages_are_found() -> None:
    assert {"translate.py", "predict.py", "file_translation.py", "settings.py"} <= {path.name for path in FILES}
    assert named("add --no-such, or --beam 5") == {"--no-such", "--beam"} > options(COMMANDS["translate"]) & {"--beam"}
