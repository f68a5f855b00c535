"""The model folder: what a trained model is on disk. Published in one instant, checked before it is believed."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.errors import DiskError, UsageError
from headway.storage import files, int8
from headway.storage import tensors as tensor_files
from headway.storage.files import Digest
from headway.storage.lock import Lock
from headway.version import installed

FORMAT = 1
CONFIG, WEIGHTS, CARD, FACTS = "config.toml", "model.safetensors", "README.md", "headway.json"
HOLDS = f"a headway model folder holds {FACTS}, {CONFIG}, {WEIGHTS} and the tokenizer's files"
NEW, PENDING = ".new", ".pending"  # being written; whole, and on its way to its place
TEXT_LIMIT = 1 << 20  # bytes of config.toml and headway.json
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
PATIENCE = 5.0  # seconds to wait for a writer that is moving files


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
        with Lock(folder / ".lock", PATIENCE):  # a reader that finishes a move holds it for a moment
            _finish(folder)
            shutil.rmtree(folder / NEW, ignore_errors=True)
            try:
                _write_new(folder / NEW, tensors, config_toml, facts, save_tokenizers, card)
                files.rename(folder / NEW, folder / PENDING)  # from here on it is the new model
                files.sync_folder(folder)
            except BaseException:
                shutil.rmtree(folder / NEW, ignore_errors=True)
                raise
            _finish(folder)


def _write_new(
    new: Path,
    tensors: Mapping[str, Tensor],
    config_toml: str,
    facts: Mapping[str, Any],
    save_tokenizers: Callable[[Path], None],
    card: str,
) -> None:
    new.mkdir()
    save_tokenizers(new)
    written = {path.name: _made_durable(path) for path in sorted(new.iterdir())}
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


def _made_durable(path: Path) -> Digest:
    """Of a file somebody else wrote."""
    with open(path, "rb") as file, files.around("sync"):
        os.fsync(file.fileno())
    return files.digest_of(path)


def _finish(folder: Path) -> None:
    """Move what is pending to its place, the facts last. Whoever comes after a kill goes on from there."""
    pending = folder / PENDING
    if not pending.is_dir() or pending.is_symlink():
        return  # a link leads elsewhere: it is none of ours
    if (pending / FACTS).exists():
        for name in {*_listed_files(folder)} - {*_listed_files(pending)}:  # tokenizers of other names
            (folder / name).unlink(missing_ok=True)
        for path in sorted(pending.iterdir(), key=lambda path: path.name == FACTS):
            if path.name == FACTS:
                files.sync_folder(folder)
            files.rename(path, folder / path.name)
        files.sync_folder(folder)
    with files.around("remove"):
        shutil.rmtree(pending)


def _listed_files(folder: Path) -> list[str]:
    try:
        names = json.loads((folder / FACTS).read_bytes())["files"]
        return [name for name in names if FILE_NAME.fullmatch(name)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


# ---------------------------------------------------------------- reading


def read_model(folder: Path, quick: bool = False) -> ModelFiles:
    """Read and check a model folder. `quick` believes the sizes and leaves the checksums out."""
    until = time.monotonic() + PATIENCE
    while True:
        _settle(folder, until)
        before = _stamp(folder)
        try:
            found = _read(folder, quick)
            if before is not None and _stamp(folder) == before:
                return found
        except (UsageError, OSError) as error:
            still = before is not None and _stamp(folder) == before
            if still or time.monotonic() > until:
                raise _one_line(folder, error) from None


def _stamp(folder: Path) -> tuple[int, ...] | None:
    """Changes whenever a model is published; None while one is being moved, as all files but the facts change then.

    The facts are moved last, so they are looked at last: a move that ends between the two looks is seen by the second.
    """
    if _is_moving(folder):
        return None
    try:
        facts = os.stat(folder / FACTS)
    except OSError:
        return ()
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _is_moving(folder: Path) -> bool:
    """Is a model whole, and not all of it in its place?"""
    pending = folder / PENDING
    return (pending / FACTS).exists() and not pending.is_symlink()


def _settle(folder: Path, until: float) -> None:
    """If a writer was killed while moving files, move the rest; if it is alive, let it finish."""
    while _is_moving(folder):
        try:
            with Lock(folder / ".lock"), files.disk_trouble(folder, 0):
                _finish(folder)
        except DiskError:
            raise UsageError(
                f"{folder} was stopped while a model was put there, and cannot be written now; "
                "open it once where it can be written"
            ) from None
        except UsageError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _one_line(folder: Path, error: UsageError | OSError) -> UsageError:
    if isinstance(error, UsageError):
        return error
    return UsageError(f"{error.filename or folder}: cannot be read: {error.strerror or error}")


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
