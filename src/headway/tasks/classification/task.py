"""A label for a whole text: sentiment, topic, question type; or several labels at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.data.bucketing import Lengths, Shape
from headway.data.corpus import Data
from headway.data.examples import ExampleBatches
from headway.data.files import Files
from headway.data.labelled import form_of, read
from headway.data.rows import pack, pad, take
from headway.errors import UsageError
from headway.metrics.classes import best_threshold
from headway.model.classifiers import TextClassifier
from headway.model.design import Model, TextEncoderDesign
from headway.model.heads.pooling import Mean, Pooling
from headway.model.initialisation import initialise_linear
from headway.model.losses import symmetric_kl
from headway.model.size import check_share
from headway.storage.card import CardFacts
from headway.storage.checked_weights import filled
from headway.tasks.base import Loaded, Setup, files_of
from headway.tasks.classification.classifier import Classes, Classifier, Decision
from headway.tasks.classification.documents import Documents
from headway.tasks.label_reports import card_of, middling, named, place, say_labels
from headway.tasks.material import kept, place_of
from headway.tasks.tagging.words import STEM, hide
from headway.text.tokenizer import Tokenizers, load
from headway.text.vocabulary import BOS, EOS
from headway.training.forward_pass import ForwardPass, Predictions, Sums
from headway.training.plan import propose_encoder
from headway.training.task import Stream, Validation

THRESHOLD = "threshold"  # its name in headway.json


@dataclass(frozen=True)
class Classification:
    """Give every text a label, or several."""

    implies: ClassVar[Mapping[str, Any]] = {
        "data": {"kind": "files"},
        "text": {"kind": "subword"},
        "model": {"kind": "encoder"},
    }

    kind: Literal["classification"] = "classification"
    multi_label: bool = False  # whether a text may have several labels, or none
    pooling: Pooling = Mean()  # how token vectors become one vector: mean, class_token or attention
    layout: Literal["auto", "tsv", "jsonl", "first"] = "auto"  # file format; first: a line begins with its label
    text_field: str | int = ""  # column number (.tsv, unset: 1) or field name (.jsonl, unset: text) of the text
    label_field: str | int = ""  # column number (.tsv, unset: 2) or field name (.jsonl, unset: label) of the label
    label_separator: str = ","  # separator of the labels of one text, with multi_label
    label_until: str = ""  # a label ends at this string: with ":" NUM:count is read as NUM
    word_dropout: float = 0.05  # share of training tokens that are replaced by the unknown token

    def __post_init__(self) -> None:
        check_share("word_dropout", self.word_dropout)
        if self.multi_label and not self.label_separator:
            raise ValueError("label_separator is empty: with many labels something must stand between them")

    def read(self, data: Data | Files, seed: int) -> Documents:
        files = files_of(data)
        files.check()
        fields, cuts = (self.text_field, self.label_field), (self.label_separator, self.label_until)
        form = form_of(files.training()[0], self.layout, fields, self.multi_label, cuts)
        train = [one for path in files.training() for one in read(path, form, files.invalid)]
        dev = [one for path in files.validation() for one in read(path, form, files.invalid)]
        return Documents.part(train, dev, Classes((), form), files, seed)

    def propose(self, given: dict[str, Any], data: Data | Files, device: torch.device) -> dict[str, Any]:
        metric = "f1" if self.multi_label else "accuracy"
        return propose_encoder(given, len(self.read(data, 0).train), device, {"training": {"best_metric": metric}})

    def look(self, data: Data | Files, force: bool, seed: int) -> list[str]:  # noqa: ARG002
        return [f"doctor: {note}" for note in self.read(data, seed).notes()]

    def prepare(self, setup: Setup) -> ClassificationTask:
        return ClassificationTask(setup, self)

    def build(self, design: Model, pieces: int, labels: int) -> TextClassifier:
        if not isinstance(design, TextEncoderDesign):
            raise UsageError(f'classification needs a model that reads (model.kind = "encoder"), not {design.kind}')
        try:
            encoder = design.build(pieces)
        except ValueError as error:
            raise UsageError(f"model: {error}") from None
        model = TextClassifier(encoder, self.pooling.build(design.width), design.width, labels, design.dropout)
        initialise_linear(model.linear)
        return model


class ClassificationBatch(NamedTuple):
    """Texts as tokens, and 1 for each label that a text has."""

    pieces: Int[Tensor, "b t"]
    labels: Float[Tensor, "b v"]


@dataclass(frozen=True)
class ClassPredictions:
    """Label scores of every text, of one forward pass or two."""

    decision: Decision
    passes: Sequence[Float[Tensor, "b v"]]
    labels: Float[Tensor, "b v"]
    real: Bool[Tensor, "b"]  # False for the rows that only fill the batch up
    r_drop: float

    def loss(self, label_smoothing: float) -> Sums:
        loss, labels = self.decision.loss, self.labels
        costs = torch.stack([loss(scores, labels, label_smoothing) for scores in self.passes]).mean(dim=0)
        if self.r_drop:
            costs = costs + self.r_drop / 2 * symmetric_kl(*self.passes, chances=self.decision.chances)
        nll = loss(self.passes[0].detach(), labels, 0.0)
        return (costs * self.real).sum(), (nll * self.real).sum(), self.real.sum()


class ClassificationForward(ForwardPass):
    """A classifier and labelled texts."""

    batch: ClassVar[type] = ClassificationBatch
    model: TextClassifier

    def __init__(self, model: TextClassifier, decision: Decision, word_dropout: float, r_drop: float = 0.0) -> None:
        super().__init__(model, r_drop)
        self.decision, self.word_dropout = decision, word_dropout

    def forward(self, batch: ClassificationBatch) -> Predictions:
        pieces, labels = batch
        passes = [self.model(hide(pieces, self.word_dropout)) for _ in range(self.passes)]
        return ClassPredictions(self.decision, passes, labels, pieces[:, 0] == BOS, self.r_drop)


class ClassificationTask:
    """A classification run's data, loss and measure."""

    def __init__(self, setup: Setup, settings: Classification) -> None:
        self.setup, self.settings = setup, settings
        self.found = settings.read(setup.data, setup.seed)
        self.classes, self.content = self.found.classes, setup.files.content
        self.longest = min(setup.files.longest, setup.design.longest)
        where = place_of(setup.folder / "state" / "text", self.content, setup.seed, asdict(setup.text))
        self.tokenizer = kept(where, self.learn).source
        ids = self.tokenizer.encode_many([one.text for one in self.found.train])
        self.cut = sum(len(row) + 1 > self.longest for row in ids)
        self.pieces = pack([[BOS, *row][: self.longest] for row in ids], "int32")
        self.wanted = self.classes.rows(self.found.train).astype(np.float32)

    def learn(self) -> Tokenizers:
        one = self.setup.text.learn(document.text for document in self.found.train)
        return Tokenizers(one, one)

    @property
    def fingerprint(self) -> str:
        settings = {**asdict(self.settings), "agreement": self.setup.training.r_drop}
        settings["many"] = settings.pop("multi_label")  # the names of version 1, so that its runs can go on
        how = json.dumps(settings, sort_keys=True)
        return f"{self.content}-{self.tokenizer.fingerprint}-{self.setup.seed}-{how}"

    @property
    def measured(self) -> tuple[str, ...]:
        return ("accuracy", "f1", "micro-f1", "ap")

    def build(self) -> TextClassifier:
        return self.settings.build(self.setup.design, len(self.tokenizer), len(self.classes.labels))

    def forward_pass(self, model: nn.Module) -> ForwardPass:
        assert isinstance(model, TextClassifier)
        decision, word_dropout = self.classes.decision, self.settings.word_dropout
        return ClassificationForward(model, decision, word_dropout, self.setup.training.r_drop)

    def stream(self, rank: int, world: int) -> Stream:
        lengths = self.pieces.lengths
        ones = np.ones_like(lengths)
        batch, seed = self.setup.training.batch, self.setup.seed
        return ExampleBatches(Lengths(lengths, ones), ones, self.fill, batch, seed, (rank, world))

    def fill(self, rows: np.ndarray, shape: Shape) -> tuple[Tensor, ...]:
        """Padded tensors; dummy rows have one piece, so that attention sees something, but no class token."""
        pieces = pad(take(self.pieces, rows), shape.rows, shape.source)
        pieces[len(rows) :, 0] = EOS
        wanted = np.pad(self.wanted[rows], ((0, shape.rows - len(rows)), (0, 0)))
        return torch.from_numpy(pieces), torch.from_numpy(wanted)

    def validate(self, model: nn.Module, device: torch.device) -> Validation:
        """With many labels the threshold is tuned on the same texts, and published with the model."""
        assert isinstance(model, TextClassifier)
        dev = self.found.dev
        if not dev:
            return Validation({})
        classifier = Classifier(model, self.tokenizer, self.classes, self.longest, device)
        scores, meant = classifier.scores([one.text for one in dev]), self.classes.rows(dev)
        facts: dict[str, Any] = {}
        if self.settings.multi_label:
            classifier.threshold = best_threshold(self.classes.decision.chances(scores).numpy(), meant)
            facts[THRESHOLD] = classifier.threshold
        loss = self.classes.decision.loss(scores, torch.from_numpy(meant).float(), 0.0).mean()
        measured = {"loss": float(loss), **classifier.judge(dev).scores.values_by_name()}
        shown = dev[middling(dev)]
        said = classifier.classify([shown.text])[0].labels
        sample = {"source": shown.text, "reference": ", ".join(shown.labels), "output": ", ".join(said)}
        return Validation({name: round(value, 5) for name, value in measured.items()}, sample, facts)

    # ------------------------------------------------------------ facts

    def where(self, indices: Any) -> str:
        return named([place(self.found.train[index]) for index in indices if index >= 0])

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder, STEM)
        self.classes.save(folder)

    def facts(self) -> dict[str, Any]:
        return {
            "texts": len(self.found.train),
            "labels": say_labels(self.classes.labels),
            "empty": len(self.found.empty),
            "cut": self.cut,
            "vocabulary": [len(self.tokenizer)],
            "measured": f"{', '.join(('loss', *self.measured))} of {len(self.found.dev):,} texts",
        }

    def card(self, folder: Path, scores: Mapping[str, float]) -> CardFacts:
        counts = len(self.found.train), len(self.found.dev)
        sizes = {"vocabulary": len(self.tokenizer), "labels": len(self.classes.labels)}
        units = "nats a text", "per cent"
        return card_of("text-classification", folder, self.setup.files, counts, sizes, scores, units)


def open_classifier(loaded: Loaded) -> Classifier:
    """A model folder as a predictor."""
    settings = loaded.task
    assert isinstance(settings, Classification)
    classes, tokenizer = Classes.load(loaded.folder), load(loaded.folder, STEM)
    model = filled(lambda: settings.build(loaded.design, len(tokenizer), len(classes.labels)), loaded.tensors)
    longest = min(files_of(loaded.data).longest, loaded.design.longest)
    threshold = float(loaded.facts.get(THRESHOLD, 0.5))
    return Classifier(model.to(loaded.device), tokenizer, classes, longest, loaded.device, threshold)
