"""Imports only go down: a room knows the rooms below it, never one above, so no two rooms know each other."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
sys.path.insert(0, str(DOCS))
rooms, code_measures = (importlib.import_module(name) for name in ("rooms", "code_measures"))
sys.path.remove(str(DOCS))


def test_every_module_is_in_a_room() -> None:
    assert {rooms.room_of(name) for name in rooms.modules()} == set(rooms.ROOMS)


def test_imports_only_go_down() -> None:
    """The rooms stand in one order, so no cycle of rooms is possible. Imports inside functions count."""
    height = {name: place for place, name in enumerate(rooms.ROOMS)}
    wrong = [
        f"{name} imports {other}: {rooms.room_of(other)} stands above {rooms.room_of(name)}"
        for name, path in rooms.modules().items()
        for other in rooms.imports(path)
        if height[rooms.room_of(other)] > height[rooms.room_of(name)]
    ]
    assert wrong == []


def test_an_import_that_goes_up_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def run() -> None:\n    from headway.serve import app\n    import headway.cli\n", encoding="utf-8")
    assert list(rooms.imports(path)) == ["serve.app", "cli"]


def test_the_files_to_read_first_are_there() -> None:
    missing = [
        f"{name}/{file}"
        for name, room in rooms.ROOMS.items()
        for file in room.first
        if not (rooms.PACKAGE / name / file).is_file()
    ]
    assert missing == []


def test_every_module_can_be_imported() -> None:
    """Shapes in annotations are checked at import. A library that is not installed is not an error."""
    for name in rooms.modules():
        if name == "__main__":
            continue
        try:
            importlib.import_module(f"headway.{name}")
        except ModuleNotFoundError as error:
            assert error.name is not None and not error.name.startswith("headway"), name


def test_pages_show_the_rooms_as_they_are() -> None:
    """The number of lines may be a little old; `python docs/build.py` brings it up to date."""
    for page in ("README.md", "CONTRIBUTING.md"):
        assert rooms.tree() in (DOCS.parent / page).read_text(encoding="utf-8"), page
    shown = (DOCS / "architecture.md").read_text(encoding="utf-8")
    without_lines = re.sub(r"\| [\d,]+ \|", "| |", shown)
    assert re.sub(r"\| [\d,]+ \|", "| |", rooms.table()) in without_lines


def test_no_function_outgrows_its_page() -> None:
    """What is longer, or takes more parameters, lacks a seam. GPU kernels take every pointer and stride by itself."""
    found = code_measures.measure(rooms.PACKAGE)
    assert found.longest[0] <= 60, found.longest
    assert found.most_parameters[0] <= 8, found.most_parameters
