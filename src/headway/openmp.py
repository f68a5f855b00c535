"""Sharing the processor with others."""

from __future__ import annotations

import os

BUSY = 0.75  # others' load, as a share of all cores
SHORT = "1000"  # turns; libgomp's own choice when it knows that there are more threads than cores


def share_cores() -> None:
    """Where others work too, a thread that waits must sleep: spinning through its turns costs ten times the time.

    Read by OpenMP when PyTorch is loaded, so this comes before that; a setting of the user's stands.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY * cores:
        os.environ.setdefault("GOMP_SPINCOUNT", SHORT)
