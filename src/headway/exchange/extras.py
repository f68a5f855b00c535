"""Packages that only some users need."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from headway.errors import UsageError


def extra(module: str, name: str) -> ModuleType:
    """The module, or one line that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(f"{module} cannot be imported ({error}); pip install 'headway[{name}]'") from None
