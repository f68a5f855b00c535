"""How Python is started as a child: nothing that lies in the current folder, for example a downloaded model, is run."""

from __future__ import annotations

import os
import sys
from typing import Any

FOLDER = sys.prefix  # where children work; who can write there can change this Python anyway


def python(*arguments: str) -> list[str]:
    """The command line of a Python that does not import from the current folder."""
    # -P and not -I, which would also ignore PYTHONPATH and packages that users have installed for themselves
    return [sys.executable, "-P", *arguments]


def surroundings() -> dict[str, Any]:
    """Options of `subprocess`: a working directory with no stranger's files; relative paths of the user stay right."""
    places = [os.path.abspath(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(places)}
    if "HEADWAY_CACHE" in os.environ:
        environment["HEADWAY_CACHE"] = os.path.abspath(os.environ["HEADWAY_CACHE"])
    return {"cwd": FOLDER, "env": environment}
