"""Read and write the folder of one checkpoint; its manifest, written last, has checksums of all files."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.errors import UsageError
from headway.storage import files
from headway.storage import tensors as tensor_files
from headway.storage.files import Digest
from headway.storage.sealed_json import render, sealed, unsealed
from headway.version import installed

FORMAT = 1
MANIFEST_LIMIT = 1 << 20  # bytes
FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\.(safetensors|json)")


class DamagedError(UsageError):
    """A checkpoint differs from what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint of a training run."""

    step: int
    path: Path
    facts: dict[str, Any]
    score: float | None = None  # validation score
    configuration: str = ""  # SHA-256 of the training configuration

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Return a copy of one group of tensors that was given to `save`, such as model or optimiser."""
        path = self.path / f"{name}.safetensors"
        if not path.exists():
            have = ", ".join(sorted(file.stem for file in self.path.glob("*.safetensors")))
            raise UsageError(f"{self.path} has no {name}; it has {have}")
        return {key: tensor.clone() for key, tensor in tensor_files.load(path).items()}


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and verify all files; DamagedError if any differs from the manifest."""
    try:
        manifest = _read_manifest(path)
        for name, entry in manifest["files"].items():
            _check_file(path, name, Digest(entry["size"], entry["sha256"]))
        facts = json.loads((path / "facts.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: {_reason(error)}") from None
    return Checkpoint(manifest["step"], path, facts, manifest["score"], manifest["configuration"])


def write_checkpoint(folder: Path, checkpoint: Checkpoint, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Write a checkpoint to a new folder, the manifest last. The caller then renames it to `checkpoint.path`."""
    folder.mkdir()
    written = {
        f"{name}.safetensors": files.write(folder / f"{name}.safetensors", tensor_files.stream(group))
        for name, group in tensors.items()
    }
    written["facts.json"] = files.write(folder / "facts.json", [render(checkpoint.facts)])
    manifest = {
        "format": FORMAT,
        "step": checkpoint.step,
        "score": checkpoint.score,
        "configuration": checkpoint.configuration,
        "headway": installed("headway"),
        "torch": torch.__version__,
        "time": time.time(),
        "files": {name: asdict(digest) for name, digest in written.items()},
    }
    files.write(folder / "manifest.json", [sealed(manifest)])
    files.sync_folder(folder)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    if path.stat().st_size > MANIFEST_LIMIT:
        raise ValueError("its manifest.json is too large")
    manifest = unsealed(path.read_bytes())
    if manifest["format"] > FORMAT:
        raise UsageError(
            f"{folder} has format {manifest['format']} of headway {manifest['headway']}, "
            f"this is headway {installed('headway')}, which reads formats up to {FORMAT}: install the newer headway"
        )
    return manifest


def _check_file(folder: Path, name: str, expected: Digest) -> None:
    path = folder / name
    if not FILE_NAME.fullmatch(name) or path.is_symlink():
        raise ValueError(f"{name!r:.80} is not a file of a checkpoint")
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    if path.stat().st_size != expected.size:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes, not {expected.size:,}")
    if files.digest_of(path) != expected:
        raise ValueError(f"the checksum of {path.name} is wrong")


def _reason(error: Exception) -> str:
    missing = isinstance(error, FileNotFoundError)
    return f"{Path(error.filename).name} is missing" if missing else " ".join(str(error).split())[:200]
