"""The files of the web page: those that all tasks share, and the view of each task from the task's own folder."""

from __future__ import annotations

from importlib.resources import files

VIEWS = "views.js"  # the views of all tasks in one script


def page_files() -> dict[str, bytes]:
    """Return the files of the page by their names. They are read now; no request ever becomes a path."""
    root = files("headway")
    shared = {file.name: file.read_bytes() for file in (root / "serve" / "page").iterdir() if file.is_file()}
    folders = sorted((folder for folder in (root / "tasks").iterdir()), key=lambda folder: folder.name)
    views = [view.read_bytes() for folder in folders if (view := folder / "view.js").is_file()]
    return {**shared, VIEWS: b"\n".join(views)}
