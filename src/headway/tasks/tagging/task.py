"""A label for every word: parts of speech, named entities."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.data.corpus import Data
from headway.data.examples import ExampleBatches
from headway.data.files import Files
from headway.data.schemes import SCHEMES
from headway.data.tagged import layout_of
from headway.errors import UsageError
from headway.model.classifiers import WordClassifier
from headway.model.design import Model, TextEncoderDesign
from headway.model.heads.tags import Crf, TagHead, Tags
from headway.model.initialisation import initialise_linear
from headway.model.letter_encoder import Letters
from headway.model.losses import symmetric_kl
from headway.model.size import check_share
from headway.storage.card import CardFacts
from headway.storage.checked_weights import filled
from headway.tasks.base import Loaded, Setup, files_of
from headway.tasks.label_reports import card_of, middling, named, say_labels
from headway.tasks.material import kept, place_of
from headway.tasks.tagging.columns import Columns
from headway.tasks.tagging.corpus import Annotated
from headway.tasks.tagging.tagger import Labelling, Tagger
from headway.tasks.tagging.words import Pieces, WordReader, hide, reader_for
from headway.text.characters import Characters
from headway.text.tokenizer import Tokenizers
from headway.training.forward_pass import ForwardPass, Predictions, Sums
from headway.training.plan import propose_encoder
from headway.training.task import Stream, Validation

LETTER_STEP = 4  # room for a batch's letters grows by so many


@dataclass(frozen=True)
class Tagging:
    """Give every word a label."""

    implies: ClassVar[Mapping[str, Any]] = {
        "data": {"kind": "files"},
        "text": {"kind": "words"},
        "model": {"kind": "encoder"},
        "training": {"objective": {"kind": "teacher_forcing", "label_smoothing": 0.0}},
    }

    kind: Literal["tagging"] = "tagging"
    head: Tags = Crf()  # crf: labels of a sentence are scored together; softmax: each word by itself
    letters: Letters | None = None  # encoder of the letters of each word: cnn or transformer; unset: none
    scheme: Literal["auto", "none", "bio", "bioes", "bmes", "bilou"] = "auto"  # how labels spell spans
    word_column: int | None = None  # column of the words, from 1, -1: last; unset: first, in .conllu files the form
    label_column: int | None = None  # column of the labels; unset: the last, in .conllu files the part of speech
    trim: str = ""  # regular expression of what is removed from each word, for example "[0-9]$"
    word_dropout: float = 0.05  # share of training tokens that are replaced by the unknown token

    def __post_init__(self) -> None:
        check_share("word_dropout", self.word_dropout)
        if 0 in (self.word_column, self.label_column):
            raise ValueError("word_column and label_column count from 1, or from the last with a minus")
        try:
            re.compile(self.trim)
        except re.error as error:
            raise ValueError(f"trim is {self.trim!r}: not a regular expression: {error}") from None

    def read(self, data: Data | Files, seed: int) -> Annotated:
        files = files_of(data)
        files.check()
        layout = layout_of(files.training()[0], self.word_column, self.label_column, self.trim)
        return Annotated.read(files, layout, SCHEMES.get(self.scheme), seed)

    def propose(self, given: dict[str, Any], data: Data | Files, device: torch.device) -> dict[str, Any]:
        """TENER's attention; letters for languages that write words with spaces; F1 decides what is best."""
        found = self.read(data, 0)
        mine: dict[str, Any] = {"training": {"best_metric": "f1" if found.labelling.scheme.letters else "accuracy"}}
        if found.labelling.spaced:
            mine["task"] = {"kind": self.kind, "letters": {"kind": "cnn"}}
        if not {"positions", "attention"} & given.get("model", {}).keys():
            mine["model"] = {"positions": {"kind": "tener"}, "attention": {"kind": "fused", "scaled": False}}
        return propose_encoder(given, len(found.train), device, mine)

    def look(self, data: Data | Files, force: bool, seed: int) -> list[str]:  # noqa: ARG002
        return [f"doctor: {note}" for note in self.read(data, seed).notes()]

    def prepare(self, setup: Setup) -> TaggingTask:
        return TaggingTask(setup, self)

    def build(self, design: Model, pieces: int, letters: int, labels: int) -> WordClassifier:
        """For so many pieces, letters and labels."""
        if not isinstance(design, TextEncoderDesign):
            raise UsageError(f'tagging needs a model that reads (model.kind = "encoder"), not {design.kind}')
        try:
            encoder = design.build(pieces)
            spelling = self.letters.build(design, letters) if self.letters and letters else None
        except ValueError as error:
            raise UsageError(f"model: {error}") from None
        head = self.head.build(design.width, labels)
        initialise_linear(head.linear)
        return WordClassifier(encoder, spelling, head, design.drop(design.dropout))

    def reader(self, setup: Setup | Loaded, pieces: Pieces, labelling: Labelling) -> WordReader:
        longest = min(files_of(setup.data).longest, setup.design.longest)
        letters = self.letters.longest if self.letters else 0
        return reader_for(pieces, setup.text, labelling.spaced, longest, letters)


class TaggingBatch(NamedTuple):
    """Sentences as tokens, with the place of each word's first token and the label of each word plus 1; 0: no word."""

    pieces: Int[Tensor, "b t"]
    first: Int[Tensor, "b w"]
    labels: Int[Tensor, "b w"]
    letters: Int[Tensor, "b w c"] | None = None


@dataclass(frozen=True)
class TagPredictions:
    """Label scores of every word, of one forward pass or two."""

    head: TagHead
    passes: Sequence[Float[Tensor, "b w v"]]
    labels: Int[Tensor, "b w"]  # 0: no word
    r_drop: float

    def loss(self, label_smoothing: float) -> Sums:
        real, wanted = self.labels > 0, (self.labels - 1).clamp(min=0)
        losses = (self.head.loss(scores, wanted, real, label_smoothing) for scores in self.passes)
        totals, nlls = zip(*losses, strict=True)
        total = torch.stack(totals).mean()
        if self.r_drop:
            gaps = symmetric_kl(*self.passes, chances=lambda scores: self.head.chances(scores, real))
            total = total + self.r_drop / 2 * (gaps * real).sum()
        return total, nlls[0], real.sum()


class TaggingForward(ForwardPass):
    """A tagger and labelled sentences."""

    batch: ClassVar[type] = TaggingBatch
    model: WordClassifier

    def __init__(self, model: WordClassifier, word_dropout: float, r_drop: float = 0.0) -> None:
        super().__init__(model, r_drop)
        self.word_dropout = word_dropout

    def forward(self, batch: TaggingBatch) -> Predictions:
        pieces, first, labels, letters = batch
        passes = [self.model(hide(pieces, self.word_dropout), first, letters) for _ in range(self.passes)]
        return TagPredictions(self.model.head, passes, labels, self.r_drop)


class TaggingTask:
    """A tagging run's data, loss and measure."""

    def __init__(self, setup: Setup, settings: Tagging) -> None:
        self.setup, self.settings = setup, settings
        self.found = settings.read(setup.data, setup.seed)
        self.labelling, self.content = self.found.labelling, setup.files.content
        self.pieces = self.learn()
        self.reader = settings.reader(setup, self.pieces, self.labelling)
        few = setup.training.batch.shapes == "bounded"  # then all words have the room of the longest
        self.columns = Columns.of(self.found, self.reader, max(1, self.reader.most_letters) if few else LETTER_STEP)

    def learn(self) -> Pieces:
        setup, train = self.setup, self.found.train
        place = place_of(setup.folder / "state" / "text", self.content, setup.seed, asdict(setup.text))

        def make() -> Tokenizers:
            one = setup.text.learn(sentence.source for sentence in train)
            return Tokenizers(one, one)

        words = sorted({word for sentence in train for word in sentence.words})
        letters = Characters().learn(words) if self.settings.letters else None
        return Pieces(kept(place, make).source, letters)

    @property
    def fingerprint(self) -> str:
        how = {**asdict(self.settings), "agreement": self.setup.training.r_drop}  # the names of version 1: runs go on
        return f"{self.content}-{self.pieces.fingerprint}-{self.setup.seed}-{json.dumps(how, sort_keys=True)}"

    @property
    def measured(self) -> tuple[str, ...]:
        return ("f1", "precision", "recall", "accuracy") if self.labelling.scheme.letters else ("accuracy",)

    def build(self) -> WordClassifier:
        return self.settings.build(self.setup.design, *self.pieces.sizes, len(self.labelling.labels))

    def forward_pass(self, model: nn.Module) -> ForwardPass:
        assert isinstance(model, WordClassifier)
        return TaggingForward(model, self.settings.word_dropout, self.setup.training.r_drop)

    def stream(self, rank: int, world: int) -> Stream:
        columns = self.columns
        return ExampleBatches(
            columns.lengths, columns.words, columns.fill, self.setup.training.batch, self.setup.seed, (rank, world)
        )

    def validate(self, model: nn.Module, device: torch.device) -> Validation:
        assert isinstance(model, WordClassifier)
        if not self.found.dev:
            return Validation({})
        tagger, dev = Tagger(model, self.reader, self.labelling, device), self.found.dev
        outputs = [one.labels for one in tagger.tag([one.words for one in dev])]
        measured = tagger.judge(outputs, dev).scores.values_by_name()
        scores = {"loss": tagger.loss(dev), **{name: measured[name] for name in self.measured}}
        shown = middling(dev)
        sample = {"source": dev[shown].source, "reference": " ".join(dev[shown].labels)}
        sample["output"] = " ".join(outputs[shown])
        return Validation({name: round(value, 5) for name, value in scores.items()}, sample)

    # ------------------------------------------------------------ facts

    def where(self, indices: Any) -> str:
        return named([self.columns.places[index] for index in indices if index >= 0])

    def save(self, folder: Path) -> None:
        self.pieces.save(folder)
        self.labelling.save(folder)

    def facts(self) -> dict[str, Any]:
        found = self.found
        return {
            "sentences": len(found.train),
            "words": int(self.columns.words.sum()),
            "labels": say_labels(self.labelling.labels),
            "scheme": self.labelling.scheme.name,
            "repaired": len(found.repaired),
            "cut": len(self.columns.places) - len(found.train),
            "vocabulary": [len(self.pieces.text)],
            "measured": f"{', '.join(('loss', *self.measured))} of {len(found.dev):,} sentences",
        }

    def card(self, folder: Path, scores: Mapping[str, float]) -> CardFacts:
        counts = len(self.found.train), len(self.found.dev)
        sizes = {"vocabulary": len(self.pieces.text), "labels": len(self.labelling.labels)}
        units = "nats a word", f"per cent, scheme:{self.labelling.scheme.name}"
        return card_of("token-classification", folder, self.setup.files, counts, sizes, scores, units)


def open_tagger(loaded: Loaded) -> Tagger:
    """A model folder as a predictor."""
    settings = loaded.task
    assert isinstance(settings, Tagging)
    labelling = Labelling.load(loaded.folder)
    pieces = Pieces.load(loaded.folder, spelled=settings.letters is not None)
    model = filled(lambda: settings.build(loaded.design, *pieces.sizes, len(labelling.labels)), loaded.tensors)
    return Tagger(model.to(loaded.device), settings.reader(loaded, pieces, labelling), labelling, loaded.device)
