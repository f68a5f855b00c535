"""A trained tagger: words in, labels out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.data.formats import Line
from headway.data.padding import packs, pad_rows
from headway.data.schemes import SCHEMES, Scheme
from headway.data.tagged import Layout, Sentence, read, sentences
from headway.errors import UsageError
from headway.inspection.single_stack import SingleStack
from headway.inspection.trace_request import Check, TraceRequest, go_on
from headway.metrics.evaluation import Evaluation, Tally
from headway.metrics.spans import count_spans, tag_scores
from headway.model.classifiers import WordClassifier
from headway.model.crf import Chain
from headway.storage.files import replace_text
from headway.tasks.base import Predictor
from headway.tasks.label_reports import check_same_labels
from headway.tasks.tagging.words import Stretch, WordReader

FILE = "labels.json"
FORBIDDEN = -1e4  # a score no sequence can make up for, and yet a number
TOKENS, ROWS, WINDOW = 4096, 256, 1000  # pieces and sentences of a batch; sentences read at a time


@dataclass(frozen=True)
class Labelling:
    """Which labels there are, how they spell spans, and how their files look."""

    labels: tuple[str, ...]
    scheme: Scheme
    spaced: bool  # words are written with a space between them
    layout: Layout

    def save(self, folder: Path) -> None:
        facts = {"labels": self.labels, "scheme": self.scheme.name, "spaced": self.spaced}
        table = facts | {"layout": asdict(self.layout)}
        replace_text(folder / FILE, json.dumps(table, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Labelling:
        path = folder / FILE
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            scheme, layout = SCHEMES[facts["scheme"]], Layout(**facts["layout"])
            return cls(tuple(map(str, facts["labels"])), scheme, bool(facts["spaced"]), layout)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: not the labels of a tagger: {error}") from None

    def ids(self, labels: Sequence[str]) -> list[int]:
        """From 1 on; 0 is a label that the model does not know."""
        return [self._numbers.get(label, 0) for label in labels]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels, 1)}

    def allowed(self, device: torch.device) -> Chain:
        """Zero where two labels may stand side by side, far below it where they may not."""
        edges: list[str | None] = [None, *self.labels]
        follows = [[self.scheme.follows(one, two) for two in edges] for one in edges]
        scores = torch.where(torch.tensor(follows, device=device), 0.0, FORBIDDEN)
        return Chain(scores[0, 1:], scores[1:, 1:], scores[1:, 0])


@dataclass(frozen=True)
class Tagged:
    """A sentence and what the model makes of it."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    labelling: Labelling

    @property
    def text(self) -> str:
        """As in the training file, without the line that separates sentences."""
        return self.labelling.layout.write(self.words, self.labels)

    def to_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"words": self.words, "labels": self.labels, "probabilities": self.probabilities}
        if self.labelling.scheme.letters:
            joiner = " " if self.labelling.spaced else ""
            spans = self.labelling.scheme.spans(self.labels)
            facts["spans"] = [{**one._asdict(), "text": joiner.join(self.words[one.start : one.end])} for one in spans]
        return facts


class Tagger(Predictor):
    """A model with its pieces and its labels. Sentences are sorted and packed by tokens inside."""

    kind: ClassVar[str] = "tagging"
    noun: ClassVar[str] = "tagger"

    def __init__(self, model: WordClassifier, reader: WordReader, labelling: Labelling, device: torch.device) -> None:
        self.model, self.reader, self.labelling, self.device = model, reader, labelling, device
        self.chain = labelling.allowed(device)

    @property
    def answers(self) -> Labelling:
        """Return what taggers that decide together must have in common."""
        return replace(self.labelling, labels=tuple(sorted(self.labelling.labels)))

    def combine(self, others: Sequence[tuple[Path, Predictor]]) -> Predictor:
        from headway.tasks.tagging.ensemble import Taggers  # which needs this module

        members = [cast(Tagger, other) for _, other in others]
        check_same_labels(self.answers, [(path, cast(Tagger, other).answers) for path, other in others])
        return Taggers([self, *members])

    def facts(self, folder: Path) -> dict[str, Any]:
        stack = SingleStack(self.model, "encoder", "encoder.stack").server_facts(len(self.reader.pieces.text))
        return {"task": self.kind, "labels": list(self.labelling.labels), **stack}

    def trace(self, request: TraceRequest, check: Check = go_on) -> dict[str, Any]:
        from headway.tasks.tagging.trace import trace_tagging  # which needs this module

        return trace_tagging(self, request)

    # ------------------------------------------------------------ text

    def predict(self, lines: Iterable[str], columns: bool = False) -> Iterator[Tagged]:
        """Sentences are lines of text, or blocks of lines of words as in CoNLL files."""
        words = self.from_columns(lines) if columns else map(self.split, lines)
        while window := list(islice(words, WINDOW)):
            yield from self.tag(window)

    def from_columns(self, lines: Iterable[str]) -> Iterator[tuple[str, ...]]:
        numbered = (Line(number, text, None) for number, text in enumerate(lines, 1))
        for sentence in sentences(numbered, self.labelling.layout, "input", labelled=False):
            yield sentence.words

    def split(self, line: str) -> tuple[str, ...]:
        return tuple(line.split() if self.labelling.spaced else "".join(line.split()))

    # ------------------------------------------------------------ labels

    @torch.inference_mode()
    def tag(self, given: Sequence[Sequence[str]]) -> list[Tagged]:
        """Labels of every word. Where a sentence was cut to fit, a span that was cut too is joined by the scheme."""
        labels = [[0] * len(words) for words in given]
        sure = [[0.0] * len(words) for words in given]
        for stretches, tensors in self.batches(self.reader.stretches(given)):
            real, scores = tensors[1] >= 0, self.model(*tensors)
            best = self.model.head.decode(scores, real, self.chain)
            chances = self.model.head.probabilities(scores, real, self.chain).gather(-1, best[..., None])[..., 0]
            for one, row, chance in zip(stretches, best.tolist(), chances.tolist(), strict=True):
                labels[one.sentence][one.place], sure[one.sentence][one.place] = row[one.here], chance[one.here]
        return self.build_predictions(given, labels, sure)

    @torch.inference_mode()
    def scores(self, given: Sequence[Sequence[str]]) -> list[Float[Tensor, "w v"]]:
        """Return the score of each label for each word, neighbours aside."""
        found = [torch.zeros(len(words), len(self.labelling.labels), device=self.device) for words in given]
        for stretches, tensors in self.batches(self.reader.stretches(given)):
            for one, rows in zip(stretches, self.model(*tensors), strict=True):
                found[one.sentence][one.place] = rows[one.here]
        return found

    def build_predictions(
        self, given: Sequence[Sequence[str]], labels: Sequence[Sequence[int]], sure: Sequence[Sequence[float]]
    ) -> list[Tagged]:
        names, repair = self.labelling.labels, self.labelling.scheme.repair
        return [
            Tagged(
                tuple(words),
                tuple(repair([names[number] for number in found])),
                tuple(round(chance, 5) for chance in chances),
                self.labelling,
            )
            for words, found, chances in zip(given, labels, sure, strict=True)
        ]

    def batches(
        self, stretches: Sequence[Stretch]
    ) -> Iterator[tuple[list[Stretch], tuple[Tensor, Tensor, Tensor | None]]]:
        for pack in packs([len(one.pieces) for one in stretches], TOKENS, ROWS):
            some = [stretches[index] for index in pack]
            yield some, self.reader.tensors(some, self.device)

    @torch.inference_mode()
    def loss(self, given: Sequence[Sentence]) -> float:
        """Negative log-likelihood a word; words with unknown labels are left out with their whole sentence."""
        known = [sentence for sentence in given if all(self.labelling.ids(sentence.labels))]
        total, count = 0.0, 0
        for some, tensors in self.batches(self.reader.stretches([sentence.words for sentence in known])):
            wanted = self.wanted([known[one.sentence].labels for one in some], some)
            scores, real = self.model(*tensors), wanted > 0
            total += float(self.model.head.loss(scores, (wanted - 1).clamp(min=0), real, 0.0)[1])
            count += int(real.sum())
        return total / max(1, count)

    def wanted(self, labels: Sequence[Sequence[str]], stretches: Sequence[Stretch]) -> Int[Tensor, "b w"]:
        parts = [one[cut.start : cut.start + len(cut.words)] for one, cut in zip(labels, stretches, strict=True)]
        return pad_rows([self.labelling.ids(self.labelling.scheme.repair(part)) for part in parts], self.device)

    # ------------------------------------------------------------ measuring

    def evaluate(self, files: Sequence[Path]) -> Evaluation:
        test = [sentence for path in files for sentence in read(path, self.labelling.layout)]
        return self.judge([one.labels for one in self.tag([one.words for one in test])], test)

    def judge(self, outputs: Sequence[Sequence[str]], test: Sequence[Sentence]) -> Evaluation:
        """The references are measured against as they stand, broken or not."""
        references, scheme = [one.labels for one in test], self.labelling.scheme
        scores = tag_scores(outputs, references, scheme)
        table = self.by_kind(outputs, references) if scheme.letters else self.by_label(outputs, references)
        return Evaluation(len(test), scores, (table,), tuple(self.oddities(test)))

    def by_kind(self, outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Tally:
        counts = count_spans(outputs, references, self.labelling.scheme.spans).kinds
        rows = tuple(
            (kind, one.there, one.found, 100 * one.precision, 100 * one.recall, 100 * one.f1)
            for kind, one in counts.items()
        )
        return Tally("spans", ("kind", "there", "found", "precision", "recall", "f1"), rows)

    def by_label(self, outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Tally:
        pairs = [pair for out, meant in zip(outputs, references, strict=True) for pair in zip(out, meant, strict=True)]
        there, right = Counter(meant for _, meant in pairs), Counter(meant for out, meant in pairs if out == meant)
        rows = tuple((label, there[label], 100 * right[label] / there[label]) for label in sorted(there))
        return Tally("labels", ("label", "there", "right"), rows)

    def oddities(self, test: Sequence[Sentence]) -> Iterator[str]:
        known = set(self.labelling.labels)
        unknown = [(one, label) for one in test for label in one.labels if label not in known]
        if unknown:
            where, labels = unknown[0][0], sorted({label for _, label in unknown})
            yield (
                f"{where.path}:{where.line}: {len(unknown):,} words have a label that the model has never seen "
                f"({', '.join(labels[:5])}); they count as wrong"
            )
        broken = [one for one in test if list(one.labels) != self.labelling.scheme.repair(one.labels)]
        if broken:
            yield f"{broken[0].path}:{broken[0].line}: {len(broken):,} sentences have spans that are spelled wrongly"
