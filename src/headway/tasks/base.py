"""The seam of the tasks: what a run hands to its task, what a task's settings know, what a trained model does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from headway.data.corpus import Data
from headway.data.files import Files
from headway.errors import UsageError
from headway.metrics.evaluation import Evaluation
from headway.model.design import ModelDesign
from headway.text.tokenizer import Text
from headway.training.settings import Training
from headway.training.task import Task


@dataclass(frozen=True)
class Setup:
    """What a run hands to its task."""

    seed: int
    data: Data | Files
    text: Text
    target_text: Text | None  # unset: the same kind for both sides
    design: ModelDesign
    training: Training
    folder: Path  # of the model; caches lie in its `state`
    notes: list[str] = field(default_factory=list)  # what the user should hear; the trainer shows it

    @property
    def pairs(self) -> Data:
        return pairs_of(self.data)

    @property
    def files(self) -> Files:
        return files_of(self.data)


def pairs_of(data: Data | Files) -> Data:
    if not isinstance(data, Data):
        raise UsageError("this task learns from pairs: set data.source and data.target, not data.train")
    return data


def files_of(data: Data | Files) -> Files:
    if not isinstance(data, Files):
        raise UsageError("this task learns from one kind of file: set data.train, not data.source")
    return data


@dataclass(frozen=True)
class Loaded:
    """What a model folder hands to a predictor: read, checked, nothing executed."""

    folder: Path
    task: TaskSettings
    data: Data | Files
    text: Text
    design: ModelDesign
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]  # of headway.json
    device: torch.device


@runtime_checkable
class TaskSettings(Protocol):
    """What stands under [task] in a run: data, and the way to everything the task does."""

    implies: ClassVar[Mapping[str, Any]]  # tables of the run that go with it where the user says nothing

    @property
    def kind(self) -> str: ...

    def propose(self, given: dict[str, Any], data: Data | Files, device: torch.device) -> dict[str, Any]:
        """Look at the files, and fill in what the user left open. What was given always wins."""
        ...

    def look(self, data: Data | Files, force: bool, seed: int) -> list[str]:
        """What a user should know of the files before training; refuse what is no use, unless forced."""
        ...

    def prepare(self, setup: Setup) -> Task:
        """Learn or find the pieces, the labels, the encoded corpus, the validation examples."""
        ...


# ---------------------------------------------------------------- trained models


@runtime_checkable
class Prediction(Protocol):
    """What a model makes of one input."""

    @property
    def text(self) -> str:
        """As it is written to a file: a line, or several that belong together."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """As a line of JSON, with probabilities."""
        ...


@runtime_checkable
class Predictor(Protocol):
    """A trained model of any task, ready for raw text."""

    def predict(self, lines: Iterable[str], columns: bool = False) -> Iterator[Prediction]:
        """A prediction for every line, in order and in bounded memory; `columns`: lines are words, as in CoNLL."""
        ...

    def evaluate(self, files: Sequence[Path]) -> Evaluation:
        """Measure the model on files of the kind it was trained on."""
        ...


@dataclass(frozen=True)
class Plain:
    """A prediction that is a text and some facts."""

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, **self.facts}
