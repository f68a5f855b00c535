"""The models that come with the package, each a folder beside this file, used when no model is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headway.errors import UsageError

HERE = Path(__file__).parent
MARK = "headway.json"  # a file of every model folder; not imported from storage, which would load torch


def present() -> tuple[Path, ...]:
    """Return the folders of the models in the package; the first is the default model."""
    return tuple(sorted(path.parent for path in HERE.glob(f"*/{MARK}")))


def chosen(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the given folders or, if there are none, those of the models in the package."""
    found = tuple(folders) or present()
    if not found:
        raise UsageError(
            "name a model folder: this package comes without a model; "
            "`headway demo` trains one in minutes, `headway train` trains one from two text files"
        )
    return found
