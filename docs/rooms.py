"""The rooms of the package, from the bottom to the top: what each holds, and which files to read first.

`tests/test_layers.py` checks that imports only go down this list. `docs/build.py` writes the table of
docs/architecture.md and the tree of the README from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "headway"


@dataclass(frozen=True)
class Room:
    """A module or a folder in the root of the package."""

    holds: str
    first: tuple[str, ...] = ()  # files to read first


ROOMS = {  # from the bottom to the top: a module may import from its own room and from those before it
    "errors": Room("errors that a user can cause, each with its exit code"),
    "subprocesses": Room("how child processes are started safely"),
    "openmp": Room("OpenMP settings for a busy machine"),
    "version": Room("versions of packages, and optional packages"),
    "config": Room("frozen dataclasses to TOML and back, with clear errors"),
    "builtin": Room("the translator that comes with the package"),
    "devices": Room("choice of the device, number of threads"),
    "storage": Room(
        "files that survive a crash: the model folder, locks, tensors",
        ("folder.py", "files.py", "tensors.py"),
    ),
    "text": Room(
        "tokenisers, sentences, protected spans",
        ("tokenizer.py", "subword.py", "vocabulary.py"),
    ),
    "data": Room(
        "corpora, doctor's checks, batches, downloads",
        ("corpus.py", "batches.py", "doctor.py"),
    ),
    "model": Room(
        "everything with weights: parts, designs, models, losses",
        ("models.py", "attention.py", "design.py"),
    ),
    "recipes": Room("the models of the papers as designs"),
    "search": Room(
        "decoding algorithms in plain PyTorch: the specification",
        ("base.py", "beam.py", "greedy.py"),
    ),
    "engines": Room(
        "what runs a trained model fast: PyTorch, native, CUDA, CTranslate2",
        ("base.py", "choice.py", "native/engine.py"),
    ),
    "metrics": Room(
        "BLEU, chrF, F1 and others, always with a signature",
        ("catalogue.py", "measure.py", "bootstrap.py"),
    ),
    "reports": Room(
        "tables, pictures and pages of evaluations and runs",
        ("evaluation.py", "tables.py", "documents.py"),
    ),
    "training": Room(
        "loop, optimisers, schedules, checkpoints, exact resume",
        ("loop.py", "engine.py", "checkpoint.py"),
    ),
    "inspection": Room(
        "looking inside a model: attention, stages, attribution",
        ("panels.py", "forward_pass.py", "attribution.py"),
    ),
    "tasks": Room(
        "one folder a task: settings, data, objective, predictor, trace",
        ("base.py", "run.py", "translation/translator.py"),
    ),
    "runs": Room(
        "decide, start and resume a training run",
        ("resume.py", "trainer.py"),
    ),
    "exchange": Room(
        "models in the formats of other programs",
        ("exports.py", "imports.py", "layout.py"),
    ),
    "serve": Room(
        "the server, its interfaces and its page",
        ("app.py", "service.py", "page/app.js"),
    ),
    "commands": Room("one function for each command", ("train.py", "translate.py", "look.py")),
    "cli": Room("the command line: functions become commands"),
    "__main__": Room("python -m headway"),
}


def modules() -> dict[str, Path]:
    """Return all modules by their name below headway, except for the package itself."""
    names = {path: ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for path, name in names.items() if name != "__init__"}


def room_of(module: str) -> str:
    return module.split(".")[0]


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


def imported_rooms() -> dict[str, set[str]]:
    """Return for each room the other rooms that it imports."""
    found: dict[str, set[str]] = {name: set() for name in ROOMS}
    for module, path in modules().items():
        found[room_of(module)] |= {room_of(other) for other in imports(path)} - {room_of(module)}
    return found


def lines_of(room: str) -> int:
    """Return the lines of Python of a room."""
    return sum(
        len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items() if room_of(name) == room
    )


def tree() -> str:
    """Return the package as a tree with one line a room, from what a user meets first to the bottom."""
    shown = [(f"{name}/" if (PACKAGE / name).is_dir() else f"{name}.py", room.holds) for name, room in ROOMS.items()]
    width = max(len(name) for name, _ in shown)
    return "\n".join(["```text", "src/headway/", *(f"  {name:{width}}  {holds}" for name, holds in shown[::-1]), "```"])


def table() -> str:
    """Return each room, what it imports, its lines and the files to read first, as a table in Markdown."""
    rows = ["| room | holds | imports | lines | read first |", "|---|---|---|---:|---|"]
    order = list(ROOMS)
    for name, others in imported_rooms().items():
        room = ROOMS[name]
        first = ", ".join(f"[{file}](../src/headway/{name}/{file})" for file in room.first)
        names = ", ".join(sorted(others, key=order.index)) or "–"
        rows.append(f"| `{name}` | {room.holds} | {names} | {lines_of(name):,} | {first} |")
    return "\n".join(rows)
