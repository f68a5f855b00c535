"""Versions of what a model was made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    packages = ("headway", "torch", "sentencepiece", "sacrebleu", "safetensors")
    return {"python": platform.python_version(), **{name: installed(name) for name in packages}}
