"""OpenMP settings for machines whose cores are shared with other processes."""

from __future__ import annotations

import os

BUSY = 0.75  # load average above which the machine is busy, as a share of all cores
SHORT = "1000"  # spins; libgomp's default when there are more threads than cores


def share_cores() -> None:
    """On a busy machine, make waiting OpenMP threads sleep soon: spinning can take ten times as long.

    Call this before torch is imported, which is when OpenMP reads it. A setting of the user is kept.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY * cores:
        os.environ.setdefault("GOMP_SPINCOUNT", SHORT)
