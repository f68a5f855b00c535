"""The seam of the tasks: what a run hands to its task, what a task's settings know, what a trained model does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import torch
from rich.console import RenderableType
from torch import Tensor, nn

from headway.data.corpus import Data
from headway.data.files import Files
from headway.errors import UsageError
from headway.inspection.trace_request import Check, Panel, TraceRequest, go_on
from headway.metrics.evaluation import Evaluation
from headway.model.design import ModelDesign
from headway.text.tokenizer import Text
from headway.training.settings import Training
from headway.training.task import Task

if TYPE_CHECKING:  # a run holds the settings of its task
    from headway.tasks.run import Run


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
    run: Run  # of config.toml
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]  # of headway.json
    device: torch.device

    @property
    def data(self) -> Data | Files:
        return self.run.data

    @property
    def text(self) -> Text:
        return self.run.text

    @property
    def design(self) -> ModelDesign:
        return self.run.model


@dataclass(frozen=True)
class OpenOptions:
    """How a trained model is run. A task that has one engine only ignores both."""

    engine: str = "auto"
    precision: str = "auto"


Trace = dict[str, Any]


@dataclass(frozen=True)
class TraceView:
    """How the traces of one task are checked and drawn: with a layer (-1: the last) and a head (None: their mean)."""

    required: Mapping[str, type]  # what a trace holds, besides its model, request, source and target
    draw: Callable[[Trace, int, int | None], RenderableType]  # for a terminal
    picture: Callable[[Trace, Path, int, int | None], None]
    terminal_panels: tuple[Panel, ...]  # panels that `draw` shows where a trace has them
    picture_panels: tuple[Panel, ...]


@runtime_checkable
class TaskSettings(Protocol):
    """What stands under [task] in a run: data, and the way to everything the task does."""

    implies: ClassVar[Mapping[str, Any]]  # tables of the run that go with it where the user says nothing
    trace_view: ClassVar[TraceView]

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

    def build_like(self, design: ModelDesign, shapes: Mapping[str, Sequence[int]]) -> nn.Module:
        """Return a fresh model of the task whose tensors have these shapes, by their names in the saved weights."""
        ...

    def open(self, loaded: Loaded, options: OpenOptions) -> Predictor:
        """Return the predictor of a model folder."""
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


class Predictor(ABC):
    """A trained model of any task, ready for raw text. A method with a body is one that most tasks do not need."""

    kind: ClassVar[str]  # of its task
    noun: ClassVar[str]  # how messages name such a model, for example "tagger"

    @abstractmethod
    def predict(self, lines: Iterable[str], columns: bool = False) -> Iterator[Prediction]:
        """Yield one prediction a line, in order and in bounded memory; `columns`: lines are words, as in CoNLL."""

    @abstractmethod
    def evaluate(self, files: Sequence[Path]) -> Evaluation:
        """Measure the model on files of the kind it was trained on."""

    @abstractmethod
    def facts(self, folder: Path) -> dict[str, Any]:
        """Return what a server says of the model: its task, its sizes, its labels or its languages."""

    @abstractmethod
    def trace(self, request: TraceRequest, check: Check = go_on) -> dict[str, Any]:
        """Return a trace of one text as plain data for JSON. `check` is called between steps and may raise an error."""

    def with_options(self, **options: Any) -> Predictor:
        """Return the same model with other options of prediction, for example a target language."""
        names = ", ".join(name.replace("_", "-") for name in options)
        raise UsageError(f"a {self.noun} has no option {names}; leave it out")

    def combine(self, others: Sequence[tuple[Path, Predictor]]) -> Predictor:
        """Return one predictor that averages this model and others of its task, each given with its folder."""
        raise UsageError(f"--with cannot combine a {self.noun} with other models")

    def prefix_ids(self, prefix: str) -> tuple[int, ...]:
        """Return the ids of the text that an output must begin with."""
        if prefix:
            raise UsageError(f"--prefix needs a translation model; this is a {self.noun}")
        return ()

    def write(self, prompt: str, hear: Callable[[str], None] | None = None) -> str:
        """Return how a text goes on; `hear` gets each part as it is written."""
        raise UsageError(f"--prompt needs a language model; this is a {self.noun}")

    def share_machine(self, workers: int, check: Callable[[], None]) -> None:  # noqa: B027 (most have one thread)
        """Use at most so many threads, and call `check` before each batch; an error that it raises ends the work."""


@dataclass(frozen=True)
class Plain:
    """A prediction that is a text and some facts."""

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, **self.facts}
