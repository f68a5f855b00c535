"""A trained model of any task: opened from its folder, ready for raw text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from headway.devices import choose_device
from headway.errors import UsageError
from headway.metrics import choose, measure
from headway.metrics.evaluation import Evaluation
from headway.reports.testset import read_lines
from headway.storage.folder import CONFIG, read_model
from headway.storage.publication import newest
from headway.tasks.base import Loaded, Plain, Prediction, Predictor
from headway.tasks.classification.classifier import Classifier
from headway.tasks.classification.task import Classification, open_classifier
from headway.tasks.ensembles import Classifiers, Taggers
from headway.tasks.language_model.predictor import LanguagePredictor
from headway.tasks.language_model.task import LanguageModelling
from headway.tasks.run import saved_run
from headway.tasks.tagging.tagger import Tagger
from headway.tasks.tagging.task import Tagging, open_tagger
from headway.tasks.translation.task import Translation
from headway.tasks.translation.translator import Translator


class TranslatorPredictor:
    """A translator as one predictor among others."""

    def __init__(self, translator: Translator, to: str = "") -> None:
        self.translator, self.to = translator, to  # the language wanted, for a multilingual model

    def predict(self, lines: Iterable[str], columns: bool = False) -> Iterator[Prediction]:
        if columns:
            raise UsageError("a translator reads lines of text, not columns")
        for one in self.translator.stream(lines, to=self.to):
            yield Plain(" ".join(one.text.splitlines()), {"source": one.source, "score": round(one.score, 4)})

    def evaluate(self, files: Sequence[Path]) -> Evaluation:
        if len(files) != 2:
            told = "a translator is measured on two, --source and --reference"
            raise UsageError(f"{len(files)} {'file' if len(files) == 1 else 'files'}: {told}")
        sources, references = (read_lines(path) for path in files)
        if len(sources) != len(references):
            raise UsageError(f"{files[0]} has {len(sources):,} lines but {files[1]} has {len(references):,}")
        outputs = [one.text for one in self.translator.stream(sources, to=self.to)]
        language = self.to or self.translator.target_language
        return Evaluation(len(outputs), measure(outputs, references, choose("bleu,chrf,ter"), language))


def into(model: Predictor, folder: Path, to: str) -> Predictor:
    """A translator that was told its target language."""
    if not isinstance(model, TranslatorPredictor):
        raise UsageError(f"{folder}: --to is for translators; this is none")
    model.translator.tag(to)  # a language that it does not know is told before anything is read
    return TranslatorPredictor(model.translator, to)


Opener = Callable[[Loaded], Predictor]


def translating(engine: str = "auto", precision: str = "auto", beside: Sequence[Path] = ()) -> Opener:
    """What opens a translator that works in this way."""
    return lambda loaded: TranslatorPredictor(
        Translator.load(loaded.folder, str(loaded.device), engine, precision, beside)
    )


# What opens a model of each task.
OPENERS: dict[type, Opener] = {
    Translation: translating(),
    Tagging: open_tagger,
    Classification: open_classifier,
    LanguageModelling: LanguagePredictor.open,
}


def open_model(folder: Path, device: str = "auto", translators: Opener | None = None) -> Predictor:
    """Read and check a model folder. Nothing in it is executed. `translators`: another way to open those."""
    return newest(folder, lambda place: open_place(place, device, translators))


def open_place(folder: Path, device: str, translators: Opener | None) -> Predictor:
    files = read_model(folder)
    where = str(folder / CONFIG)
    run = saved_run(files.config_text, where)
    loaded = Loaded(folder, run.task, run.data, run.text, run.model, files.tensors, files.facts, choose_device(device))
    openers = OPENERS | ({Translation: translators} if translators else {})
    return openers[type(run.task)](loaded)


# What makes one model of several.
JOINED: dict[type, Callable[[list[Any]], Predictor]] = {Tagger: Taggers, Classifier: Classifiers}


def open_together(folder: Path, beside: Sequence[Path], device: str = "auto") -> Predictor:
    """Several models as one; with none beside it, the model itself."""
    first: Any = open_model(folder, device, translating(beside=beside))
    if not beside or isinstance(first, TranslatorPredictor):
        return first
    if type(first) not in JOINED:
        raise UsageError(f"{folder}: --with is for translators, taggers and classifiers; this is a language model")
    others: list[Any] = [open_model(other, device) for other in beside]
    for path, other in zip(beside, others, strict=True):
        if type(other) is not type(first):
            raise UsageError(f"{path}: its task is not that of {folder}; --with takes another model of the same task")
        if other.answers != first.answers:
            raise UsageError(f"{path}: its labels, or the form of its files, are not those of {folder}")
    return JOINED[type(first)]([first, *others])
