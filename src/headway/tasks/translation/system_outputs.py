"""Translate the sentences of a test set with a model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import UsageError
from headway.reports.testset import Outputs, TestSet
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.model_options import ModelOptions

if TYPE_CHECKING:  # this imports torch
    from headway.engines import Chosen


def translate_with(
    folder: Path, test: TestSet, options: DecodingOptions, models: ModelOptions, tell: Callable[[Chosen, str], None]
) -> tuple[Outputs, str]:
    """Return the outputs of a model, or of an ensemble, and the language that they are in.

    `tell` is given the engine that runs and the one that was asked for.
    """
    if test.sources is None:
        raise UsageError(f"{folder}: a model needs sentences to translate; give them with --source")
    from headway.tasks.translation.translator import Translator

    translator = Translator.load(folder, models.device, models.engine, models.precision, models.beside)
    tell(translator.chosen, models.engine)
    start = time.perf_counter()
    results = translator.translate(list(test.sources), options)
    seconds = time.perf_counter() - start
    texts = tuple(result.text for result in results)
    confidences = tuple(_probability(result.score) for result in results)
    name = " + ".join(map(str, (folder, *models.beside)))
    return Outputs(name, texts, confidences, seconds), options.to or translator.target_language or ""


def _probability(score: float) -> float | None:
    """A log-probability per piece as a probability; some engines give none."""
    return math.exp(min(0.0, score)) if math.isfinite(score) else None
