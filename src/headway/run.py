"""A whole run as data: what config.toml holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headway.architecture import EncoderDecoderDesign, Model
from headway.data.corpus import Data
from headway.tasks.base import Setup
from headway.tasks.translation import Translation, TranslationTask
from headway.text.tokenizer import Subword, Text
from headway.training.settings import Training

Task = Translation


@dataclass(frozen=True)
class Run:
    """Task, data, text, model and training. The same file trains the same model again."""

    seed: int = 1  # of everything that is random
    licence: str = ""  # of the published model, for its card
    task: Task = Translation()  # what is learned
    data: Data = Data()  # files to learn from
    text: Text = Subword()  # how text becomes pieces
    target_text: Text | None = None  # another kind of pieces for the target; unset: the same
    model: Model = EncoderDecoderDesign()  # the architecture
    training: Training = Training()  # how it is learned

    def prepare(self, folder: Path) -> TranslationTask:
        return self.task.prepare(
            Setup(self.seed, self.data, self.text, self.target_text, self.model, self.training, folder)
        )
