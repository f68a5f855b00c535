"""Checkpoints: folders that are there whole or not at all. Pull the plug at any instant and the newest still loads."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from headway.errors import DiskError, UsageError
from headway.training import files, tensors as tensor_files
from headway.training.files import Digest
from headway.training.lock import Lock, alive

FORMAT = 1
MANIFEST_LIMIT = 1 << 20  # bytes
NAME = re.compile(r"step-(\d{8,15})(?:\.(\d{1,6}))?")  # .2 is the second checkpoint of the same step
UNFINISHED = re.compile(r".+\.tmp-(\d{1,10})")
FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\.(safetensors|json)")


class DamagedError(UsageError):
    """A checkpoint that is not what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """One verified moment of a training run."""

    step: int
    path: Path
    facts: dict[str, Any]
    score: float | None = None
    configuration: str = ""  # sha256 of the configuration it was trained with

    def tensors(self, name: str) -> dict[str, Tensor]:
        """One group of tensors as it was handed to `save`, in memory of its own."""
        path = self.path / f"{name}.safetensors"
        if not path.exists():
            have = ", ".join(sorted(file.stem for file in self.path.glob("*.safetensors")))
            raise UsageError(f"{self.path} holds no {name}; it holds {have}")
        return {key: tensor.clone() for key, tensor in tensor_files.load(path).items()}


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, every byte of it checked against its manifest."""
    try:
        manifest = _read_manifest(path)
        for name, entry in manifest["files"].items():
            _check_file(path / name, Digest(entry["size"], entry["sha256"]))
        facts = json.loads((path / "facts.json").read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: {_reason(error)}") from None
    return Checkpoint(manifest["step"], path, facts, manifest["score"], manifest["configuration"])


class Checkpoints:
    """The folder `state/` of one run: written by one process, readable by any."""

    def __init__(self, folder: Path, keep_last: int = 2, keep_best: int = 1, configuration: str = "") -> None:
        if keep_last < 1 or keep_best < 0:
            raise UsageError(
                f"keep_last is {keep_last}, keep_best {keep_best}: keep at least one last, best none or more"
            )
        self.folder = folder
        self.keep_last, self.keep_best = keep_last, keep_best
        self.configuration = hash_of(configuration)
        self.notes: list[str] = []  # what the user should hear; the caller takes them out
        self._lock = Lock(folder / "lock")
        self._claimed = False
        self._sound: dict[Path, Checkpoint] = {}  # written or read by this process: no need to read again

    # ------------------------------------------------------------ one writer

    def claim(self) -> None:
        """Become the only writer and sweep up what dead writers left. `save` does it by itself."""
        if self._claimed:
            return
        with files.disk_trouble(self.folder, 0):
            files.make_folder(self.folder)
            self._lock.take()
            self._claimed = True
            self._sweep()

    def release(self) -> None:
        self._lock.release()
        self._claimed = False

    def __enter__(self) -> Checkpoints:
        self.claim()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _sweep(self) -> None:
        for path in self.folder.iterdir():
            found = UNFINISHED.fullmatch(path.name)
            if not found:
                continue
            owner = int(found[1])
            if owner != os.getpid() and alive(owner):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------ writing

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        facts: dict[str, Any],
        score: float | None = None,
    ) -> Path:
        """Write one checkpoint, whole or not at all. A higher score is better. The older ones stay until it is safe."""
        self.claim()
        needed = sum(tensor_files.byte_count(group) for group in tensors.values()) + (1 << 16)
        files.check_space(self.folder, needed)
        final = self._free_name(step)
        beside = final.with_name(f"{final.name}.tmp-{os.getpid()}")
        score = score if score is not None and math.isfinite(score) else None
        checkpoint = Checkpoint(step, final, facts, score, self.configuration)
        with files.disk_trouble(final, needed):
            try:
                _write(beside, checkpoint, tensors)
                files.rename(beside, final)
                files.sync_folder(self.folder)
            except BaseException:
                shutil.rmtree(beside, ignore_errors=True)
                raise
        self._sound[final] = checkpoint
        self._tidy(final)
        return final

    def _free_name(self, step: int) -> Path:
        """A name nobody has: to exchange a folder takes two renames, and the plug may be pulled between them."""
        first = self.folder / f"step-{step:08d}"
        again = [_place(path)[1] for path in self._listed() if _place(path)[0] == step]
        return first.with_name(f"{first.name}.{max(again) + 1}") if again else first

    def _tidy(self, final: Path) -> None:
        """The checkpoint is safe by now: trouble from here on costs disk space, not work."""
        try:
            files.replace_text(self.folder / "latest", f"{final.name}\n")
            self.prune()
        except DiskError as error:
            self.notes.append(str(error))

    def prune(self) -> None:
        """Keep the last few, the best few, and remove the rest. Damaged ones do not count."""
        sound = [found for path in self._listed() if (found := self._try(path))]
        if not sound:
            return
        best = sorted((it for it in sound if it.score is not None), key=_by_score)
        kept = {it.path for it in sound[: self.keep_last] + best[: self.keep_best]}
        self._remove([path for path in self._listed() if path not in kept])

    def discard_after(self, step: int) -> None:
        """Going back to an earlier step: what came after it must not be found again."""
        self.claim()
        self._remove([path for path in self._listed() if _place(path)[0] > step])
        remaining = self._listed()
        if remaining:
            files.replace_text(self.folder / "latest", f"{remaining[0].name}\n")

    def _remove(self, paths: list[Path]) -> None:
        for path in paths:
            with files.disk_trouble(path, 0):
                files.remove_folder(path)
            self._sound.pop(path, None)

    # ------------------------------------------------------------ reading

    def newest(self) -> Checkpoint | None:
        """The newest that verifies. Those that do not are noted and passed over."""
        return self._first(self._listed())

    def best(self) -> Checkpoint | None:
        """The one with the highest score that verifies; of equals the earliest."""
        scored = [it for path in self._listed() if (it := self._try(path)) and it.score is not None]
        return self._first([it.path for it in sorted(scored, key=_by_score)])

    def _first(self, paths: list[Path]) -> Checkpoint | None:
        for path in paths:
            self._sound.pop(path, None)  # the disk may have changed its mind: read it again
            if found := self._try(path):
                return found
        return None

    def _try(self, path: Path) -> Checkpoint | None:
        try:
            self._sound[path] = self._sound.get(path) or read_checkpoint(path)
        except DamagedError as error:
            note = f"{error}; passed over"
            if note not in self.notes:
                self.notes.append(note)
            return None
        return self._sound[path]

    def _listed(self) -> list[Path]:
        """All that have a checkpoint's name, newest first."""
        if not self.folder.is_dir():
            return []
        named = [
            path for path in self.folder.iterdir() if NAME.fullmatch(path.name) and not path.is_symlink()
        ]
        return sorted(named, key=_place, reverse=True)


@dataclass
class Saver:
    """What to do about a bad disk: try again after a pause, train on, give up at the third save lost in a row."""

    checkpoints: Checkpoints
    patience: int = 3  # saves lost in a row before giving up
    pauses: tuple[float, ...] = (1.0, 5.0)  # seconds before each new try of one save
    sleep: Callable[[float], None] = time.sleep
    lost: int = field(default=0, init=False)

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        facts: dict[str, Any],
        score: float | None = None,
    ) -> Path | None:
        """The path, or None where the disk refused and training should go on."""
        try:
            return self.insist(step, tensors, facts, score)
        except DiskError as error:
            self.lost += 1
            if self.lost >= self.patience:
                raise
            self.checkpoints.notes.append(
                f"{error}; training goes on, lost save {self.lost} of {self.patience}"
            )
            return None

    def insist(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        facts: dict[str, Any],
        score: float | None = None,
    ) -> Path:
        """For the last save of a run: the same tries, but what fails is an error."""
        for pause in self.pauses:
            try:
                return self._saved(self.checkpoints.save(step, tensors, facts, score))
            except DiskError as error:
                self.checkpoints.notes.append(f"{error}; trying again in {pause:g} s")
                self.sleep(pause)
        return self._saved(self.checkpoints.save(step, tensors, facts, score))

    def _saved(self, path: Path) -> Path:
        self.lost = 0
        return path


def hash_of(configuration: str) -> str:
    return hashlib.sha256(configuration.encode()).hexdigest()


# ---------------------------------------------------------------- the files of one checkpoint


def _write(folder: Path, checkpoint: Checkpoint, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    folder.mkdir()
    written = {
        f"{name}.safetensors": files.write(folder / f"{name}.safetensors", tensor_files.stream(group))
        for name, group in tensors.items()
    }
    written["facts.json"] = files.write(folder / "facts.json", [_render(checkpoint.facts)])
    manifest = {
        "format": FORMAT,
        "step": checkpoint.step,
        "score": checkpoint.score,
        "configuration": checkpoint.configuration,
        "headway": version("headway"),
        "torch": torch.__version__,
        "time": time.time(),
        "files": {name: asdict(digest) for name, digest in written.items()},
    }
    files.write(folder / "manifest.json", [_render(_sealed(manifest))])
    files.sync_folder(folder)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    if path.stat().st_size > MANIFEST_LIMIT:
        raise ValueError("its manifest.json is too long")
    text = path.read_bytes()
    manifest = json.loads(text)
    seal = manifest.pop("seal")
    if _sealed(manifest) != {**manifest, "seal": seal} or _render({**manifest, "seal": seal}) != text:
        raise ValueError("its manifest.json was changed")
    if manifest["format"] > FORMAT:
        raise ValueError(f"it has format {manifest['format']}, this headway reads up to {FORMAT}")
    return manifest


def _sealed(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest, "seal": hashlib.sha256(_render(manifest)).hexdigest()}


def _render(table: dict[str, Any]) -> bytes:
    """One table, one text: so that a changed byte is seen even where JSON would not mind."""
    return (json.dumps(table, indent=1, sort_keys=True) + "\n").encode()


def _check_file(path: Path, expected: Digest) -> None:
    if not FILE_NAME.fullmatch(path.name) or path.is_symlink():
        raise ValueError(f"{path.name} is no file of a checkpoint")
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    if path.stat().st_size != expected.size:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes, not {expected.size:,}")
    if files.digest_of(path) != expected:
        raise ValueError(f"{path.name} has other bytes than were written")


def _place(path: Path) -> tuple[int, int]:
    """Where a checkpoint stands in time: its step, and which of that step it is."""
    found = NAME.fullmatch(path.name)
    assert found
    return int(found[1]), int(found[2] or 1)


def _by_score(checkpoint: Checkpoint) -> tuple[float, tuple[int, int]]:
    return -(checkpoint.score or 0.0), _place(checkpoint.path)


def _reason(error: Exception) -> str:
    missing = isinstance(error, FileNotFoundError)
    return f"{Path(error.filename).name} is missing" if missing else " ".join(str(error).split())[:200]
