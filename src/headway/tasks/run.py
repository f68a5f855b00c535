"""A whole run as data: what config.toml holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from headway.config import from_dict, merge, parse_toml
from headway.data.corpus import Data
from headway.data.files import Files
from headway.model.design import EncoderDecoderDesign, Model
from headway.storage.migration import RENAMED, VERSION, migrated
from headway.tasks.base import Setup, pairs_of
from headway.tasks.classification.task import Classification
from headway.tasks.language_model.task import LanguageModelling
from headway.tasks.tagging.task import Tagging
from headway.tasks.translation.task import Translation
from headway.text.tokenizer import Subword, Text
from headway.training.settings import Training
from headway.training.task import Task as PreparedTask

Task = Translation | Tagging | Classification | LanguageModelling


@dataclass(frozen=True)
class Run:
    """Task, data, text, model and training. The same file trains the same model again."""

    renamed: ClassVar[Mapping[str, str]] = RENAMED

    version: Literal[2] = VERSION  # version of these names; files that state an older one are translated when read
    seed: int = 1  # random seed
    licence: str = ""  # licence of the published model, for its card
    task: Task = Translation()  # what is learned
    data: Data | Files = Data()  # files to learn from
    text: Text = Subword()  # how text is split into tokens
    target_text: Text | None = None  # tokenisation of the target; unset: the same as text
    model: Model = EncoderDecoderDesign()  # architecture
    training: Training = Training()  # how the model is trained

    @staticmethod
    def complete(table: Mapping[str, Any]) -> dict[str, Any]:
        """The table in today's names, with what the task implies: the kinds of data, text and model."""
        table = migrated(table, "configuration")
        task = table.get("task")
        kind = task.get("kind") if isinstance(task, Mapping) else None
        return merge(next((one.implies for one in get_args(Task) if one.kind == kind), {}), table)

    @property
    def pairs(self) -> Data:
        return pairs_of(self.data)

    def setup(self, folder: Path) -> Setup:
        return Setup(self.seed, self.data, self.text, self.target_text, self.model, self.training, folder)

    def prepare(self, folder: Path) -> PreparedTask:
        return self.task.prepare(self.setup(folder))


def saved_run(text: str, where: str) -> Run:
    """The run of a model folder, from the text of its config.toml; folders of older versions too."""
    return from_dict(Run, migrated(parse_toml(text, where), where, unversioned=1), where)
