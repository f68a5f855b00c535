"""Which files to learn from, where one file holds everything: tagging, classification, language modelling."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from headway.data.archives import open_regular
from headway.data.formats import Invalid
from headway.errors import UsageError


@dataclass(frozen=True)
class Files:
    """Files to learn from; the task defines what they hold."""

    section: ClassVar[bool] = True

    kind: Literal["files"] = "files"
    train: str | tuple[str, ...] = ""  # training file, or several (also packed: .gz, .xz, .zst)
    dev: str | tuple[str, ...] = ""  # validation file; unset: some examples are held out
    dev_sentences: int = 1000  # number of examples held out if there is no validation file, at most 5 % of all
    longest: int = 512  # maximum tokens of an example; the task says what happens to longer ones
    invalid: Invalid = "error"  # what to do with bytes that are not UTF-8: error, skip or replace
    language: str = ""  # language of the text, for the model's card

    def __post_init__(self) -> None:
        if self.longest < 1 or self.dev_sentences < 0:
            raise ValueError("longest must be 1 or more, dev_sentences 0 or more")

    def training(self) -> tuple[Path, ...]:
        paths = _paths(self.train)
        if not paths:
            raise UsageError("no training data: set data.train to a file")
        return paths

    def validation(self) -> tuple[Path, ...]:
        """None means that examples are held out."""
        return _paths(self.dev)

    def check(self) -> None:
        """Look at every file before any work: it can be opened."""
        for path in (*self.training(), *self.validation()):
            open_regular(path).close()

    @property
    def content(self) -> str:
        """A name for what the files hold: it changes with their bytes and with how they are read."""
        key = hashlib.sha256(json.dumps(asdict(replace(self, train="", dev="", language=""))).encode())
        for paths in (self.training(), self.validation()):
            key.update(json.dumps(len(paths)).encode())
            for path in paths:
                with open_regular(path) as stream:
                    key.update(hashlib.file_digest(stream, "sha256").digest())
        return key.hexdigest()


def _paths(names: str | tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(Path(name) for name in ((names,) if isinstance(names, str) else names) if name)
