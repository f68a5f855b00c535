"""Versions of installed packages, and imports of optional packages."""

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
    """Return the version of an installed package, or "unknown"."""
    if package == "headway":
        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which results depend."""
    packages = ("headway", "torch", "sentencepiece", "sacrebleu", "safetensors")
    return {"python": platform.python_version(), **{name: installed(name) for name in packages}}


def extra(module: str, name: str) -> ModuleType:
    """Import an optional module; UsageError with the pip command of the extra `name` if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UsageError(f"{module} cannot be imported ({error}); {pip_install(name)}") from None
