"""Let a model say its best of every sentence of a test set."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headway.engines import Chosen
from headway.errors import UsageError
from headway.reports.testset import Outputs, TestSet


@dataclass(frozen=True)
class Decoding:
    """How models are run."""

    beam: int = 5
    device: str | None = None
    engine: str = "auto"
    to: str = ""  # target language, for multilingual models
    beside: tuple[Path, ...] = ()  # models that write together with each


def translate_with(
    folder: Path, test: TestSet, how: Decoding, tell: Callable[[Chosen, str], None]
) -> tuple[Outputs, str]:
    """A model's outputs, and the language it says it writes. `tell` is given the engine and the one asked for."""
    if test.sources is None:
        raise UsageError(f"{folder}: a model needs sentences to translate; give them with --source")
    from headway.tasks.translation.translator import Translator

    translator = Translator.load(folder, device=how.device, engine=how.engine, beside=how.beside)
    tell(translator.chosen, how.engine)
    start = time.perf_counter()
    results = translator.translate(list(test.sources), beam=how.beam, to=how.to)
    seconds = time.perf_counter() - start
    texts = tuple(result.text for result in results)
    confidences = tuple(_probability(result.score) for result in results)
    name = " + ".join(map(str, (folder, *how.beside)))
    return Outputs(name, texts, confidences, seconds), how.to or translator.target_language or ""


def _probability(score: float) -> float | None:
    """A log-probability per piece as a probability; some engines give none."""
    return math.exp(min(0.0, score)) if math.isfinite(score) else None
