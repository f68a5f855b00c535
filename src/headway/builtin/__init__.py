"""Models that come with the package, each a folder beside this file; for those who name none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headway.errors import UsageError

HERE = Path(__file__).parent
MARK = "headway.json"  # what makes a folder a model; not imported, since that would load torch


def present() -> tuple[Path, ...]:
    """The models that came with the package; the first is the one that answers when none is named."""
    return tuple(sorted(path.parent for path in HERE.glob(f"*/{MARK}")))


def chosen(folders: Sequence[Path]) -> tuple[Path, ...]:
    """The folders that were named; if none, the models that came with the package."""
    found = tuple(folders) or present()
    if not found:
        raise UsageError(
            "name a model folder: none comes with this package; "
            "`headway demo` trains one in minutes, `headway train` one from two text files"
        )
    return found
