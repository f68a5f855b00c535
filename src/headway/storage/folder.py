"""The model folder: what a trained model is on disk. Published in one instant, checked before it is believed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.errors import UsageError
from headway.storage import files, int8
from headway.storage import tensors as tensor_files
from headway.storage.files import Digest
from headway.storage.migration import VERSION
from headway.storage.publication import FACTS, FILE_NAME, newest, publish
from headway.version import installed

FORMAT = VERSION  # of headway.json; an older headway that meets a newer one says so
CONFIG, WEIGHTS, CARD = "config.toml", "model.safetensors", "README.md"
HOLDS = f"a headway model folder holds {FACTS}, {CONFIG}, {WEIGHTS} and the tokenizer's files"
TEXT_LIMIT = 1 << 20  # bytes of config.toml and headway.json


@dataclass(frozen=True)
class ModelFiles:
    """A model folder that was read and found sound."""

    path: Path
    config_text: str
    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    notes: list[str] = field(default_factory=list)  # odd, but no reason to refuse


# ---------------------------------------------------------------- writing


def write_model(
    folder: Path,
    tensors: Mapping[str, Tensor],
    config_toml: str,
    facts: Mapping[str, Any],
    save_tokenizers: Callable[[Path], None],
    card: str,
) -> None:
    """Publish a model. Killed at any instant, the folder is the old model or the new one, never a mixture."""
    needed = tensor_files.byte_count(tensors) + (1 << 16)
    with files.disk_trouble(folder, needed):
        files.make_folder(folder)
        files.check_space(folder, needed)
        publish(folder, lambda new: _write_new(new, tensors, config_toml, facts, save_tokenizers, card))


def _write_new(
    new: Path,
    tensors: Mapping[str, Tensor],
    config_toml: str,
    facts: Mapping[str, Any],
    save_tokenizers: Callable[[Path], None],
    card: str,
) -> None:
    save_tokenizers(new)
    written = {path.name: files.made_durable(path) for path in sorted(new.iterdir())}
    files.write(new / CARD, [card.encode()])  # people edit it: no digest
    written[CONFIG] = files.write(new / CONFIG, [config_toml.encode()])
    written[WEIGHTS] = files.write(new / WEIGHTS, tensor_files.stream(tensors))
    table = {
        "format": FORMAT,
        "headway": installed("headway"),
        **facts,
        "files": {name: asdict(digest) for name, digest in written.items()},
    }
    files.write(new / FACTS, [(json.dumps(table, indent=2, ensure_ascii=False) + "\n").encode()])
    files.sync_folder(new)


# ---------------------------------------------------------------- reading


def read_model(folder: Path, quick: bool = False) -> ModelFiles:
    """Read and check a model folder; nothing is written. `quick` believes the sizes and leaves the checksums out."""
    return newest(folder, lambda place: _read(place, quick))


def _read(folder: Path, quick: bool) -> ModelFiles:
    facts = _read_facts(folder)
    digests = _digests(folder, facts)
    config, weights = _inside(folder, CONFIG), _inside(folder, WEIGHTS)
    notes: list[str] = []
    for name, digest in digests.items():
        path = _inside(folder, name)
        if name == CONFIG:
            if not quick and files.digest_of(path) != digest:
                notes.append(f"{path} was edited after the model was saved")
        elif path.stat().st_size != digest.size or (not quick and files.digest_of(path) != digest):
            raise UsageError(f"{path} is not the file that was saved: it is damaged or exchanged; copy it again")
    tensors = int8.restored(tensor_files.load(weights))
    if not quick:
        notes += [f"{weights}: {name!r:.80} holds numbers that are not finite" for name in _not_finite(tensors)]
    return ModelFiles(folder, _read_text(config), tensors, facts, notes)


def _read_facts(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; {HOLDS}")
    for name in (FACTS, CONFIG, WEIGHTS):
        if not (folder / name).exists():
            raise UsageError(f"{folder} has no {name}; {HOLDS}")
    path = _inside(folder, FACTS)
    try:
        facts = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    known = isinstance(facts, dict) and isinstance(facts.get("format"), int) and facts["format"] >= 1
    if not known or not isinstance(facts.get("headway"), str):
        raise UsageError(f"{path} gives no format and no headway version: it was not written by headway")
    if facts["format"] > FORMAT:
        raise UsageError(
            f"{folder} has format {facts['format']} of headway {facts['headway']!r:.40}; this is headway "
            f"{installed('headway')}, which reads up to format {FORMAT}: install the newer headway"
        )
    return facts


def _digests(folder: Path, facts: Mapping[str, Any]) -> dict[str, Digest]:
    try:
        digests = {name: Digest(entry["size"], entry["sha256"]) for name, entry in facts["files"].items()}
    except (KeyError, TypeError, AttributeError):
        raise UsageError(f"{folder / FACTS} does not list the files with size and sha256") from None
    for name in (CONFIG, WEIGHTS):
        if name not in digests:
            raise UsageError(f"{folder / FACTS} does not list {name}; {HOLDS}")
    return digests


def _inside(folder: Path, name: str) -> Path:
    """The path of a plain file of this folder; nothing that leads elsewhere."""
    path = folder / name
    if not FILE_NAME.fullmatch(name):
        raise UsageError(f"{folder / FACTS} lists {name!r:.80}: only plain names of files in the folder are allowed")
    if not path.exists():
        raise UsageError(f"{folder} has no {name}; {HOLDS}")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{path} leads out of the folder; copy the folder with its files, for example by cp -rL")
    if not path.is_file():
        raise UsageError(f"{path} is not a plain file; {HOLDS}")
    return path


def _read_text(path: Path) -> str:
    size = path.stat().st_size
    if size > TEXT_LIMIT:
        raise UsageError(f"{path} has {size:,} bytes, at most {TEXT_LIMIT:,} are allowed")
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from None


def _not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """A sum is not finite where any part is not; in float64 no sum of sound weights overflows."""
    kinds = (torch.float32, torch.float16, torch.bfloat16)
    sums = {name: it.sum(dtype=torch.float64).item() for name, it in tensors.items() if it.dtype in kinds}
    return [name for name, total in sums.items() if not math.isfinite(total)]
