"""What to do about a bad disk while training goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from headway.errors import DiskError
from headway.training.checkpoint import Checkpoints


@dataclass
class Saver:
    """Try again after a pause; then train on without; give up at the third save lost in a row."""

    checkpoints: Checkpoints
    patience: int = 3  # saves lost in a row before giving up
    pauses: tuple[float, ...] = (1.0, 5.0)  # seconds before each new try of one save
    sleep: Callable[[float], None] = time.sleep
    lost: int = field(default=0, init=False)
    saved_step: int | None = field(default=None, init=False)
    saved_at: float = field(default_factory=time.monotonic, init=False)

    @property
    def seconds_ago(self) -> float:
        return time.monotonic() - self.saved_at

    def mark(self, step: int, safe: bool = True) -> None:
        """A checkpoint of this step was made, or at least tried."""
        self.saved_step, self.saved_at = step if safe else None, time.monotonic()

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
            self.checkpoints.notes.append(f"{error}; training goes on, lost save {self.lost} of {self.patience}")
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
