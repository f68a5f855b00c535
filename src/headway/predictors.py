"""A trained model of any task: opened from its folder, ready for raw text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from headway import config
from headway.api import Translator
from headway.errors import UsageError
from headway.folder import CONFIG, read_model
from headway.machine import choose_device
from headway.metrics import choose, measure
from headway.reports.testset import read_lines
from headway.run import Run
from headway.tasks.base import Evaluation, Loaded, Plain, Prediction, Predictor
from headway.tasks.classification import Classification, open_classifier
from headway.tasks.language_model import LanguageModelling
from headway.tasks.language_predictor import LanguagePredictor
from headway.tasks.tagging import Tagging, open_tagger
from headway.tasks.translation import Translation


class TranslatorPredictor:
    """A translator as one predictor among others."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def predict(self, lines: Iterable[str], columns: bool = False) -> Iterator[Prediction]:
        if columns:
            raise UsageError("a translator reads lines of text, not columns")
        for one in self.translator.stream(lines):
            yield Plain(" ".join(one.text.splitlines()), {"source": one.source, "score": round(one.score, 4)})

    def evaluate(self, files: Sequence[Path]) -> Evaluation:
        if len(files) != 2:
            raise UsageError(f"{len(files)} files: a translator is measured on two, the source and its translation")
        sources, references = (read_lines(path) for path in files)
        if len(sources) != len(references):
            raise UsageError(f"{files[0]} has {len(sources):,} lines but {files[1]} has {len(references):,}")
        outputs = [one.text for one in self.translator.stream(sources)]
        language = self.translator.target_language
        return Evaluation(len(outputs), measure(outputs, references, choose("bleu,chrf,ter"), language))


def translating(loaded: Loaded) -> Predictor:
    return TranslatorPredictor(Translator.load(loaded.folder, str(loaded.device)))


# What opens a model of each task.
OPENERS: dict[type, Callable[[Loaded], Predictor]] = {
    Translation: translating,
    Tagging: open_tagger,
    Classification: open_classifier,
    LanguageModelling: LanguagePredictor.open,
}


def open_model(folder: Path, device: str = "auto") -> Predictor:
    """Read and check a model folder. Nothing in it is executed."""
    files = read_model(folder)
    where = str(folder / CONFIG)
    run = config.from_dict(Run, config.parse_toml(files.config_text, where), where)
    loaded = Loaded(folder, run.task, run.data, run.text, run.model, files.tensors, files.facts, choose_device(device))
    return OPENERS[type(run.task)](loaded)
