"""Headway: the Transformer of "Attention is all you need", whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.tasks.translation.result import Translation
    from headway.tasks.translation.translator import Translator

__all__ = ["Translation", "Translator"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: `headway --help` should not wait for torch."""
    if name == "Translator":
        from headway.tasks.translation.translator import Translator

        return Translator
    if name == "Translation":
        from headway.tasks.translation.result import Translation

        return Translation
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
