"""Checkpoints: whole or not there at all. Pull the plug at any instant and the newest still loads."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import Tensor

from headway.errors import DiskError, UsageError
from headway.storage import files
from headway.storage import tensors as tensor_files
from headway.storage.lock import Lock, sweep
from headway.storage.manifest import Checkpoint, DamagedError, read_checkpoint, write_checkpoint

NAME = re.compile(r"step-(\d{8,15})(?:\.(\d{1,6}))?")  # .2 is the second checkpoint of the same step


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
        self._last: Path | None = None
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
            sweep(self.folder)

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

    # ------------------------------------------------------------ writing

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        facts: dict[str, Any],
        score: float | None = None,
    ) -> Path:
        """Write one checkpoint, whole or not at all; a higher score is better. Older ones stay till then."""
        self.claim()
        needed = sum(tensor_files.byte_count(group) for group in tensors.values()) + (1 << 16)
        files.check_space(self.folder, needed)
        final = self._free_name(step)
        beside = final.with_name(f"{final.name}.tmp-{os.getpid()}")
        score = score if score is not None and math.isfinite(score) else None
        checkpoint = Checkpoint(step, final, facts, score, self.configuration)
        with files.disk_trouble(final, needed):
            try:
                shutil.rmtree(beside, ignore_errors=True)
                write_checkpoint(beside, checkpoint, tensors)
                files.rename(beside, final)
                files.sync_folder(self.folder)
            except BaseException:
                shutil.rmtree(beside, ignore_errors=True)
                raise
        self._sound[final], self._last = checkpoint, final
        self._tidy(final)
        return final

    def _free_name(self, step: int) -> Path:
        """A name nobody has. To exchange a folder takes two renames, and the plug may be pulled between."""
        first = self.folder / f"step-{step:08d}"
        again = [_place(path)[1] for path in self.listed() if _place(path)[0] == step]
        return first.with_name(f"{first.name}.{max(again) + 1}") if again else first

    def _tidy(self, final: Path) -> None:
        """The checkpoint is safe by now: trouble from here on costs disk space, not work."""
        try:
            files.replace_text(self.folder / "latest", f"{final.name}\n")
            self.prune()
            sweep(self.folder)
        except (DiskError, OSError) as error:
            self.notes.append(str(error))

    def prune(self) -> None:
        """Keep the last few, the best few, and remove the rest. Damaged ones do not count."""
        sound = [found for path in self.listed() if (found := self._try(path))]
        if not sound:
            return
        best = sorted((it for it in sound if it.score is not None), key=_by_score)
        kept = {it.path for it in sound[: self.keep_last] + best[: self.keep_best]} | {self._last}
        self._remove([path for path in self.listed() if path not in kept])

    def discard_after(self, step: int) -> None:
        """Going back to an earlier step: what came after it must not be found again."""
        self.claim()
        self._remove([path for path in self.listed() if _place(path)[0] > step])
        remaining = self.listed()
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
        return self._first(self.listed())

    def best(self) -> Checkpoint | None:
        """The one with the highest score that verifies; of equals the earliest."""
        scored = [it for path in self.listed() if (it := self._try(path)) and it.score is not None]
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

    def listed(self) -> list[Path]:
        """All that have a checkpoint's name, newest first."""
        if not self.folder.is_dir():
            return []
        named = [path for path in self.folder.iterdir() if NAME.fullmatch(path.name) and not path.is_symlink()]
        return sorted(named, key=_place, reverse=True)


def hash_of(configuration: str) -> str:
    return hashlib.sha256(configuration.encode()).hexdigest()


def _place(path: Path) -> tuple[int, int]:
    """Where a checkpoint stands in time: its step, and which of that step it is."""
    found = NAME.fullmatch(path.name)
    assert found
    return int(found[1]), int(found[2] or 1)


def _by_score(checkpoint: Checkpoint) -> tuple[float, tuple[int, int]]:
    return -(checkpoint.score or 0.0), _place(checkpoint.path)
