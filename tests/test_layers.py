"""Imports only go down: a part knows nothing of the models made of it, a model nothing of training, and so on."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import headway

ROOT = Path(headway.__file__).parent
LAYERS = {  # the longest name that fits counts; a module may import from its own layer and from those below
    0: "errors config text data pages machine cores version card translation snippet packed temporary",
    1: "numerics",
    2: "parts",
    3: "parts.attention parts.blocks parts.stacks parts.heads",
    4: (
        "data.batches data.examples data.segments data.prefetch models classifiers letters initialisation "
        "architecture recipes losses glossary kept inspect"
    ),
    5: "search metrics training folder translating builtin",
    6: "planning tasks run",
    7: (
        "looking anatomy alignment api jobs downloads fetching synthesis exchange engines trainer "
        "request predictors reports plots view screen demo"
    ),
    8: "commands cli serve __main__",
}
LAYER_OF = {name: layer for layer, names in LAYERS.items() for name in names.split()}


def modules() -> dict[str, Path]:
    """All modules by their name below headway, but the package itself, which only says who it is."""
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for path, name in names.items() if name != "__init__"}


def layer(name: str) -> int:
    parts = name.split(".")
    fitting = [prefix for n in range(len(parts), 0, -1) if (prefix := ".".join(parts[:n])) in LAYER_OF]
    assert fitting, f"headway.{name} is in no layer: add it, or its folder, to LAYERS"
    return LAYER_OF[fitting[0]]


def imports(path: Path) -> Iterator[str]:
    """What a file imports from headway, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (
                alias.name.removeprefix("headway.") for alias in node.names if alias.name.startswith("headway.")
            )
        elif isinstance(node, ast.ImportFrom) and node.module == "headway":
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headway."):
            inner = {f"{node.module}.{alias.name}".removeprefix("headway.") for alias in node.names}
            yield from inner & modules().keys() or {str(node.module).removeprefix("headway.")}


def test_imports_only_go_down() -> None:
    wrong = [
        f"{name} (layer {layer(name)}) imports {other} (layer {layer(other)})"
        for name, path in modules().items()
        for other in imports(path)
        if layer(other) > layer(name)
    ]
    assert wrong == []


def test_every_module_can_be_imported() -> None:
    """Shapes in annotations are checked as they are imported; a library that is not installed is no fault."""
    for name in modules():
        if name == "__main__":
            continue
        try:
            importlib.import_module(f"headway.{name}")
        except ModuleNotFoundError as error:
            assert error.name is not None and not error.name.startswith("headway"), name
