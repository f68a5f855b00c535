"""Versions of the packages that a model was made with, and packages that only some users need."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from headway.errors import UsageError


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    packages = ("headway", "torch", "sentencepiece", "sacrebleu", "safetensors")
    return {"python": platform.python_version(), **{name: installed(name) for name in packages}}


def extra(module: str, name: str) -> ModuleType:
    """The module, or one line that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(f"{module} cannot be imported ({error}); pip install 'headway[{name}]'") from None
