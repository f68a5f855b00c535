"""Imports only go down: a room knows the rooms below it, never one above, and no two rooms know each other."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import headway

ROOT = Path(headway.__file__).parent

# From the bottom to the top. A module may import from its own room and from those that stand before it.
ROOMS = (
    "errors", "options", "subprocesses", "openmp", "version", "config", "builtin", "devices", "storage", "text", "data",
    "model", "recipes", "search", "engines", "metrics", "reports", "training", "inspection", "tasks", "runs", "exchange",
    "serve", "commands", "cli", "__main__",
)  # fmt: skip


def modules() -> dict[str, Path]:
    """Return all modules by their name below headway, except for the package itself."""
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for path, name in names.items() if name != "__init__"}


def room(name: str) -> str:
    return name.split(".")[0]


def imports(path: Path) -> Iterator[str]:
    """Yield the modules of headway that a file imports, also those inside functions and for type checks."""
    known = modules()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (
                alias.name.removeprefix("headway.") for alias in node.names if alias.name.startswith("headway.")
            )
        elif isinstance(node, ast.ImportFrom) and node.module == "headway":
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headway."):
            inner = {f"{node.module}.{alias.name}".removeprefix("headway.") for alias in node.names}
            yield from inner & known.keys() or {str(node.module).removeprefix("headway.")}


def test_every_module_is_in_a_room() -> None:
    assert {room(name) for name in modules()} == set(ROOMS)


def test_imports_only_go_down() -> None:
    """The rooms stand in one order, so no cycle of rooms is possible."""
    height = {name: place for place, name in enumerate(ROOMS)}
    wrong = [
        f"{name} imports {other}: {room(other)} stands above {room(name)}"
        for name, path in modules().items()
        for other in imports(path)
        if height[room(other)] > height[room(name)]
    ]
    assert wrong == []


def test_every_module_can_be_imported() -> None:
    """Shapes in annotations are checked at import. A library that is not installed is not an error."""
    for name in modules():
        if name == "__main__":
            continue
        try:
            importlib.import_module(f"headway.{name}")
        except ModuleNotFoundError as error:
            assert error.name is not None and not error.name.startswith("headway"), name
