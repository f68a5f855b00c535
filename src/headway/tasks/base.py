"""What a run hands to its task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headway.architecture import Model
from headway.data.corpus import Data
from headway.text.tokenizer import Text
from headway.training.settings import Training


@dataclass(frozen=True)
class Setup:
    """What a run hands to its task."""

    seed: int
    data: Data
    text: Text
    target_text: Text | None  # unset: the same kind for both sides
    design: Model
    training: Training
    folder: Path  # of the model; caches lie in its `state`
