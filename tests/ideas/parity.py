"""A task in one file, copied into the tasks by a test: does a line have an even number of words?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from rich.text import Text as Line
from torch import Tensor, nn
from torch.nn import functional as F

from headway.data.bucketing import Lengths
from headway.data.corpus import Data
from headway.data.examples import ExampleBatches
from headway.data.files import Files
from headway.data.padding import pad_rows
from headway.data.rows import pack, pad, take
from headway.errors import UsageError
from headway.inspection.trace_request import Check, TraceRequest, go_on
from headway.metrics import Score, Scores
from headway.metrics.evaluation import Evaluation
from headway.model.classifiers import TextClassifier
from headway.model.design import TextEncoderDesign
from headway.model.heads.pooling import Mean
from headway.storage.card import CardFacts
from headway.storage.checked_weights import filled
from headway.tasks.base import Loaded, OpenOptions, Plain, Prediction, Predictor, Setup, TraceView, files_of
from headway.tasks.material import kept, place_of
from headway.text.tokenizer import Tokenizer, Tokenizers
from headway.text.vocabulary import BOS, EOS
from headway.training.forward_pass import ForwardPass, Predictions, Sums
from headway.training.plan import propose_encoder
from headway.training.task import Stream, Validation

NAMES = ("even", "odd")


def lines_of(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


def number_of(line: str) -> int:
    return len(line.split()) % 2


@dataclass(frozen=True)
class Parity:
    """Tell whether a line has an even number of words."""

    implies: ClassVar[Mapping[str, Any]] = {
        "data": {"kind": "files"},
        "text": {"kind": "words"},
        "model": {"kind": "encoder"},
    }
    trace_view: ClassVar[TraceView] = TraceView(
        required={"answer": str},
        draw=lambda trace, _layer, _head: Line(trace["answer"]),
        picture=lambda _trace, path, _layer, _head: path.write_bytes(b"") and None,
        terminal_panels=(),
        picture_panels=(),
    )

    kind: Literal["parity"] = "parity"

    def propose(self, given: dict[str, Any], data: Data | Files, device: torch.device) -> dict[str, Any]:
        return propose_encoder(given, 100, device, {"training": {"best_metric": "accuracy"}})

    def look(self, data: Data | Files, force: bool, seed: int) -> list[str]:
        return []

    def prepare(self, setup: Setup) -> ParityTask:
        return ParityTask(self, setup)

    def build(self, design: Any, size: int) -> TextClassifier:
        if not isinstance(design, TextEncoderDesign):
            raise UsageError("parity needs an encoder")
        return TextClassifier(design.build(size), Mean().build(design.width), design.width, 2, design.dropout)

    def build_like(self, design: Any, shapes: Mapping[str, Sequence[int]]) -> nn.Module:
        return self.build(design, shapes["encoder.embedding.weight"][0])

    def open(self, loaded: Loaded, options: OpenOptions) -> Predictor:
        tokenizer = Tokenizers.load(loaded.folder).source
        model = filled(lambda: self.build(loaded.design, len(tokenizer)), loaded.tensors)
        return ParityPredictor(model.to(loaded.device), tokenizer, loaded.device)


class ParityBatch(NamedTuple):
    pieces: Tensor
    wanted: Tensor


@dataclass(frozen=True)
class ParityPredictions:
    scores: Tensor
    wanted: Tensor
    real: Tensor  # False for the rows that only fill the batch up

    def loss(self, label_smoothing: float) -> Sums:
        costs, nll = (
            (
                F.cross_entropy(self.scores.float(), self.wanted, reduction="none", label_smoothing=share) * self.real
            ).sum()
            for share in (label_smoothing, 0.0)
        )
        return costs, nll.detach(), self.real.sum()


class ParityForward(ForwardPass):
    batch: ClassVar[type] = ParityBatch

    def forward(self, batch: ParityBatch) -> Predictions:
        real = batch.pieces[:, 0] == BOS  # a dummy row has no begin
        return ParityPredictions(self.model(batch.pieces), batch.wanted, real)


class ParityTask:
    measured = ("accuracy",)

    def __init__(self, settings: Parity, setup: Setup) -> None:
        self.settings, self.setup, self.content = settings, setup, setup.files.content
        lines = lines_of(files_of(setup.data).training()[0])
        self.dev, self.train = lines[:10], lines[10:]
        where = place_of(setup.folder / "state" / "text", self.content, asdict(setup.text))
        self.tokenizers = kept(where, self.learn)
        self.pieces = pack([[BOS, *self.tokenizers.source.encode(line)] for line in self.train], "int32")

    def learn(self) -> Tokenizers:
        one = self.setup.text.learn(iter(self.train))
        return Tokenizers(one, one)

    @property
    def fingerprint(self) -> str:
        return f"{self.content}-{self.tokenizers.fingerprint}-{self.setup.seed}"

    def build(self) -> TextClassifier:
        return self.settings.build(self.setup.design, len(self.tokenizers.source))

    def forward_pass(self, model: nn.Module) -> ForwardPass:
        assert isinstance(model, TextClassifier)
        return ParityForward(model)

    def stream(self, rank: int, world: int) -> Stream:
        ones = np.ones_like(self.pieces.lengths)
        lengths, batch = Lengths(self.pieces.lengths, ones), self.setup.training.batch
        return ExampleBatches(lengths, ones, self.fill, batch, self.setup.seed, (rank, world))

    def fill(self, rows: np.ndarray, shape: Any) -> tuple[Tensor, ...]:
        pieces = pad(take(self.pieces, rows), shape.rows, shape.source)
        pieces[len(rows) :, 0] = EOS
        wanted = np.pad(self.wanted[rows], (0, shape.rows - len(rows)))
        return torch.from_numpy(pieces), torch.from_numpy(wanted)

    @cached_property
    def wanted(self) -> np.ndarray:
        return np.array([number_of(line) for line in self.train])

    def validate(self, model: nn.Module, device: torch.device) -> Validation:
        assert isinstance(model, TextClassifier)
        predictor = ParityPredictor(model, self.tokenizers.source, device)
        return Validation({"loss": 1.0, "accuracy": predictor.accuracy(self.dev)})

    def where(self, indices: Any) -> str:
        return f"line {indices[0]}"

    def save(self, folder: Path) -> None:
        self.tokenizers.save(folder)

    def facts(self) -> dict[str, Any]:
        return {"lines": len(self.train)}

    def card(self, folder: Path, scores: Mapping[str, float]) -> CardFacts:
        return CardFacts(name=folder.name, task="parity", languages=[], data=[], sizes={}, scores=[], use="")


class ParityPredictor(Predictor):
    kind: ClassVar[str] = "parity"
    noun: ClassVar[str] = "judge of parity"

    def __init__(self, model: TextClassifier, tokenizer: Tokenizer, device: torch.device) -> None:
        self.model, self.tokenizer, self.device = model, tokenizer, device

    @torch.inference_mode()
    def predict(self, lines: Iterable[str], columns: bool = False) -> Iterator[Prediction]:
        for line in lines:
            scores = self.model(pad_rows([[BOS, *self.tokenizer.encode(line)]], self.device))
            yield Plain(NAMES[int(scores.argmax())])

    def accuracy(self, lines: Sequence[str]) -> float:
        pairs = zip(self.predict(lines), lines, strict=True)
        return 100 * sum(found.text == NAMES[number_of(line)] for found, line in pairs) / len(lines)

    def evaluate(self, files: Sequence[Path]) -> Evaluation:
        lines = [line for path in files for line in lines_of(path)]
        return Evaluation(len(lines), Scores({"accuracy": Score(self.accuracy(lines), signature="per cent")}))

    def facts(self, folder: Path) -> dict[str, Any]:
        return {"task": self.kind, "pairs": [], "vocabulary": [len(self.tokenizer)]}

    def trace(self, request: TraceRequest, check: Check = go_on) -> dict[str, Any]:
        (found,) = self.predict([request.q])
        text = {"text": request.q}
        return {"kind": self.kind, "model": {}, "request": {}, "source": text, "target": {}, "answer": found.text}
