"""A trained classifier: texts in, labels out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from headway.data.labelled import Document, Form, read
from headway.data.padding import packs, pad_rows
from headway.errors import UsageError
from headway.inspection.single_stack import SingleStack
from headway.inspection.trace_request import Check, TraceRequest, go_on
from headway.metrics.classes import class_scores, confusion, f1_by_label
from headway.metrics.evaluation import Evaluation, Tally
from headway.model.classifiers import TextClassifier
from headway.model.losses import exact
from headway.storage.files import replace_text
from headway.tasks.base import Predictor
from headway.tasks.label_reports import check_same_labels
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import BOS

FILE = "labels.json"
TOKENS, ROWS, WINDOW = 8192, 256, 1000  # pieces and texts of a batch; texts read at a time


class OneLabel:
    """Every text has exactly one label: chances sum to 1, the largest is chosen."""

    def loss(self, scores: Float[Tensor, "b v"], wanted: Float[Tensor, "b v"], smoothing: float) -> Tensor:
        spread = wanted * (1 - smoothing) + smoothing / scores.size(-1)
        return -(exact(scores).log_softmax(dim=-1) * spread).sum(dim=-1)

    def chances(self, scores: Float[Tensor, "b v"]) -> Float[Tensor, "b v"]:
        return exact(scores).softmax(dim=-1)

    def choose(self, chances: Float[np.ndarray, "n v"], threshold: float) -> Bool[np.ndarray, "n v"]:  # noqa: ARG002
        return np.arange(chances.shape[1]) == chances.argmax(axis=1)[:, None]


class ManyLabels:
    """Any number of labels: each has its own chance, and those over a threshold are chosen."""

    def loss(self, scores: Float[Tensor, "b v"], wanted: Float[Tensor, "b v"], smoothing: float) -> Tensor:
        spread = wanted * (1 - smoothing) + smoothing / 2
        return F.binary_cross_entropy_with_logits(exact(scores), spread, reduction="none").sum(dim=-1)

    def chances(self, scores: Float[Tensor, "b v"]) -> Float[Tensor, "b v"]:
        return exact(scores).sigmoid()

    def choose(self, chances: Float[np.ndarray, "n v"], threshold: float) -> Bool[np.ndarray, "n v"]:
        return chances >= threshold


Decision = OneLabel | ManyLabels


@dataclass(frozen=True)
class Classes:
    """Which labels there are, and how their files look."""

    labels: tuple[str, ...]
    form: Form

    @property
    def decision(self) -> Decision:
        return ManyLabels() if self.form.separator else OneLabel()

    def save(self, folder: Path) -> None:
        table = {"labels": self.labels, "form": asdict(self.form)}
        replace_text(folder / FILE, json.dumps(table, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Classes:
        path = folder / FILE
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            return cls(tuple(map(str, facts["labels"])), Form(**facts["form"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: not the labels of a classifier: {error}") from None

    def rows(self, documents: Sequence[Document]) -> Bool[np.ndarray, "n v"]:
        """Which labels each text has; those that are not known are nowhere."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        table = np.zeros((len(documents), len(self.labels)), bool)
        for row, one in zip(table, documents, strict=True):
            row[[numbers[label] for label in one.labels if label in numbers]] = True
        return table


@dataclass(frozen=True)
class Classified:
    """A text and what the model makes of it."""

    source: str
    labels: tuple[str, ...]
    chances: dict[str, float]
    form: Form
    cut: bool = False  # longer than the model reads

    @property
    def text(self) -> str:
        return self.form.write(self.source, self.labels) if self.source.strip() else ""

    def to_dict(self) -> dict[str, Any]:
        found = {"text": self.source, "labels": self.labels, "probabilities": self.chances}
        return found | {"cut": True} if self.cut else found


class Classifier(Predictor):
    """A model with its pieces and its labels. Texts are sorted and packed by tokens inside."""

    kind: ClassVar[str] = "classification"
    noun: ClassVar[str] = "classifier"

    def __init__(
        self,
        model: TextClassifier,
        tokenizer: Tokenizer,
        classes: Classes,
        longest: int,
        device: torch.device,
        threshold: float = 0.5,
    ) -> None:
        self.model, self.tokenizer, self.classes = model, tokenizer, classes
        self.longest, self.device, self.threshold = longest, device, threshold

    @property
    def answers(self) -> Classes:
        """Return what classifiers that decide together must have in common."""
        return replace(self.classes, labels=tuple(sorted(self.classes.labels)))

    def combine(self, others: Sequence[tuple[Path, Predictor]]) -> Predictor:
        from headway.tasks.classification.ensemble import Classifiers  # which needs this module

        members = [cast(Classifier, other) for _, other in others]
        check_same_labels(self.answers, [(path, cast(Classifier, other).answers) for path, other in others])
        return Classifiers([self, *members])

    def facts(self, folder: Path) -> dict[str, Any]:
        stack = SingleStack(self.model, "encoder", "encoder.stack").server_facts(len(self.tokenizer))
        return {"task": self.kind, "labels": list(self.classes.labels), **stack}

    def trace(self, request: TraceRequest, check: Check = go_on) -> dict[str, Any]:
        from headway.tasks.classification.trace import trace_classification  # which needs this module

        return trace_classification(self, request)

    # ------------------------------------------------------------ scores

    def ids(self, text: str) -> list[int]:
        """The class token and the text, cut where it is too long."""
        return [BOS, *self.tokenizer.encode(text)][: self.longest]

    @torch.inference_mode()
    def scores(self, texts: Sequence[str]) -> Float[Tensor, "n v"]:
        ids = [self.ids(text) for text in texts]
        found = torch.zeros(len(ids), len(self.classes.labels))
        for pack in packs([len(row) for row in ids], TOKENS, ROWS):
            found[pack] = self.model(pad_rows([ids[i] for i in pack], self.device)).float().cpu()
        return found

    def chances(self, texts: Sequence[str]) -> Float[np.ndarray, "n v"]:
        return self.classes.decision.chances(self.scores(texts)).numpy()

    # ------------------------------------------------------------ text

    def predict(self, lines: Iterable[str], columns: bool = False) -> Iterator[Classified]:
        """A line is a text. An empty line stays empty."""
        if columns:
            raise UsageError("a classifier reads a text on each line, not columns of words")
        source = iter(lines)
        while window := list(islice(source, WINDOW)):
            yield from self.classify(window)

    def classify(self, texts: Sequence[str]) -> list[Classified]:
        chances = self.chances(texts)
        chosen = self.classes.decision.choose(chances, self.threshold)
        return [self.build_prediction(*row) for row in zip(texts, chances, chosen, strict=True)]

    def build_prediction(self, text: str, chances: np.ndarray, chosen: np.ndarray) -> Classified:
        labels = self.classes.labels
        order = np.argsort(-chances, kind="stable")
        said = tuple(labels[i] for i in order if chosen[i]) if text.strip() else ()
        found = {labels[i]: round(float(chances[i]), 5) for i in order}
        return Classified(text, said, found, self.classes.form, self.too_long(text))

    def too_long(self, text: str) -> bool:
        """Most texts are seen to fit without being encoded: a piece has a byte at least."""
        return len(text.encode()) >= self.longest and len(self.tokenizer.encode(text)) >= self.longest

    # ------------------------------------------------------------ measuring

    def evaluate(self, files: Sequence[Path]) -> Evaluation:
        return self.judge([one for path in files for one in read(path, self.classes.form)])

    def judge(self, test: Sequence[Document]) -> Evaluation:
        """Texts that are empty are left out; labels that the model does not know cannot be found."""
        full = [one for one in test if one.text.strip()]
        chances, meant = self.chances([one.text for one in full]), self.classes.rows(full)
        said = self.classes.decision.choose(chances, self.threshold)
        unknown = np.array([not set(one.labels) <= set(self.classes.labels) for one in full], bool)
        scores = class_scores(
            with_column(said, np.zeros_like(unknown)), with_column(meant, unknown), with_nothing(chances)
        )
        table = None if self.classes.form.separator else self.confused(said, meant)
        return Evaluation(len(full), scores, (self.by_label(said, meant),), tuple(self.oddities(test, full)), table)

    def by_label(self, said: np.ndarray, meant: np.ndarray) -> Tally:
        columns = (meant.sum(0), said.sum(0), 100 * f1_by_label(said, meant))
        rows = tuple(
            (label, int(there), int(found), float(f1))
            for label, there, found, f1 in zip(self.classes.labels, *columns, strict=True)
        )
        return Tally("labels", ("label", "there", "found", "f1"), rows)

    def confused(self, said: np.ndarray, meant: np.ndarray) -> Tally:
        known, labels = meant.any(axis=1), self.classes.labels
        table = confusion(said[known].argmax(axis=1), meant[known].argmax(axis=1), len(labels))
        rows = tuple((label, *map(int, row)) for label, row in zip(labels, table, strict=True))
        return Tally("confusion", ("right label", *labels), rows)

    def oddities(self, test: Sequence[Document], full: Sequence[Document]) -> Iterator[str]:
        known = set(self.classes.labels)
        strange = [one for one in full if not set(one.labels) <= known]
        if strange:
            labels = sorted({label for one in strange for label in one.labels} - known)
            yield (
                f"{strange[0].path}:{strange[0].line}: {len(strange):,} texts have a label that the model has never "
                f"seen ({', '.join(labels[:5])}); they count as wrong"
            )
        long = [one for one in full if self.too_long(one.text)]
        if long:
            where, most = f"{long[0].path}:{long[0].line}", self.longest - 1
            yield f"{where}: {len(long):,} texts are longer than {most:,} pieces and were cut there"
        if len(full) < len(test):
            empty = next(one for one in test if not one.text.strip())
            yield f"{empty.path}:{empty.line}: {len(test) - len(full):,} empty texts are left out"


def with_column(table: Bool[np.ndarray, "n v"], column: Bool[np.ndarray, "n"]) -> Bool[np.ndarray, "n w"]:
    """One more label, for all that the model does not know; none if there is no such text."""
    return np.concatenate([table, column[:, None]], axis=1)


def with_nothing(table: Float[np.ndarray, "n v"]) -> Float[np.ndarray, "n w"]:
    """No chances, for a label that the model cannot say."""
    return np.concatenate([table, np.full((len(table), 1), np.nan, table.dtype)], axis=1)
