"""A whole run as data: what config.toml holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from headway.config import merge
from headway.data.corpus import Data
from headway.data.files import Files
from headway.model.design import EncoderDecoderDesign, Model
from headway.tasks.base import Setup, pairs_of
from headway.tasks.classification.task import Classification
from headway.tasks.language_model.task import LanguageModelling
from headway.tasks.tagging.task import Tagging
from headway.tasks.translation.task import Translation
from headway.text.tokenizer import Subword, Text
from headway.training.settings import Training
from headway.training.task import Task as PreparedTask

Task = Translation | Tagging | Classification | LanguageModelling
TASKS: dict[str, type[Task]] = {task.kind: task for task in get_args(Task)}


@dataclass(frozen=True)
class Run:
    """Task, data, text, model and training. The same file trains the same model again."""

    seed: int = 1  # of everything that is random
    licence: str = ""  # of the published model, for its card
    task: Task = Translation()  # what is learned
    data: Data | Files = Data()  # files to learn from
    text: Text = Subword()  # how text becomes pieces
    target_text: Text | None = None  # another kind of pieces for the target; unset: the same
    model: Model = EncoderDecoderDesign()  # the architecture
    training: Training = Training()  # how it is learned

    @staticmethod
    def complete(table: Mapping[str, Any]) -> dict[str, Any]:
        """What the task implies where nothing else is said: the kind of data, of text and of model."""
        task = table.get("task")
        kind = task.get("kind") if isinstance(task, Mapping) else None
        return merge(TASKS[kind].implies if kind in TASKS else {}, table)

    @property
    def pairs(self) -> Data:
        return pairs_of(self.data)

    def setup(self, folder: Path) -> Setup:
        return Setup(self.seed, self.data, self.text, self.target_text, self.model, self.training, folder)

    def prepare(self, folder: Path) -> PreparedTask:
        return self.task.prepare(self.setup(folder))
