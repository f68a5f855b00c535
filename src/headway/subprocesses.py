"""Start Python child processes that import nothing from the current folder, which may hold a downloaded model."""

from __future__ import annotations

import os
import sys
from typing import Any

FOLDER = sys.prefix  # working directory of children; whoever can write there can change this Python anyway


def python(*arguments: str) -> list[str]:
    """Return the command line of a Python that does not import from the current folder."""
    # not -I, which would also ignore PYTHONPATH and packages in the user's site-packages
    return [sys.executable, "-P", *arguments]


def surroundings() -> dict[str, Any]:
    """Return `cwd` and `env` for `subprocess`: a safe working directory, and relative paths made absolute."""
    places = [os.path.abspath(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(places)}
    if "HEADWAY_CACHE" in os.environ:
        environment["HEADWAY_CACHE"] = os.path.abspath(os.environ["HEADWAY_CACHE"])
    return {"cwd": FOLDER, "env": environment}
