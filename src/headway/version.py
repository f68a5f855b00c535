"""Versions of the packages that a model was made with, and packages that only some users need."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from headway import __version__
from headway.errors import UsageError

DISTRIBUTION = "headway-mt"  # the name on the Python package index; command and import are `headway`


def pip_install(name: str) -> str:
    """Return the command that installs an extra, such as `serve`."""
    return f"pip install '{DISTRIBUTION}[{name}]'"


def installed(package: str) -> str:
    """Return the version of a package; "unknown" if it is not installed."""
    if package == "headway":
        return __version__
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
        raise UsageError(f"{module} cannot be imported ({error}); {pip_install(name)}") from None
