"""Text to text: translation, and everything that can be written as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from headway.data.batches import Batches
from headway.data.corpus import Data, Pair, check_files
from headway.data.files import Files
from headway.data.formats import count_lines
from headway.data.languages import languages_to_train
from headway.data.padding import packs, pad_rows
from headway.data.quick_check import look
from headway.errors import UsageError
from headway.metrics import choose, measure
from headway.model.design import EncoderDecoderDesign, ModelDesign
from headway.model.models import EncoderDecoder
from headway.search import Beam, Greedy, Limits
from headway.storage.card import CardFacts, DataFile, Score
from headway.tasks.base import Loaded, OpenOptions, Predictor, Setup, TraceView, pairs_of
from headway.tasks.material import Material
from headway.tasks.translation import drawing
from headway.tasks.translation.outputs import AnyText, Output
from headway.tasks.translation.validation_attention import attending
from headway.text.sampling import Resampler
from headway.text.vocabulary import BOS, EOS
from headway.training.forward_pass import ForwardPass, Predictions, VocabularyPredictions
from headway.training.plan import propose
from headway.training.settings import LOSS_PAIRS
from headway.training.task import Stream, Validation


@dataclass(frozen=True)
class Translation:
    """Translation: read a sentence, write a sentence."""

    trace_view: ClassVar[TraceView] = drawing.VIEW
    implies: ClassVar[Mapping[str, Any]] = {}
    section: ClassVar[bool] = True

    kind: Literal["translation"] = "translation"
    metrics: str = "bleu,chrf"  # metrics of validation, as in `headway evaluate --metrics`
    output: Output = AnyText()  # what every output must be: text (no rule) or tree
    limits: Limits = Limits()  # length limits of outputs

    def __post_init__(self) -> None:
        choose(self.metrics)

    def propose(self, given: dict[str, Any], data: Data | Files, device: torch.device) -> dict[str, Any]:
        """Add the languages, and sizes by the number of pairs and by the machine."""
        pairs = pairs_of(data)
        check_files(pairs)
        languages = zip(("source_language", "target_language"), languages_to_train(pairs), strict=True)
        named = {name: code for name, code in languages if code}
        given = {**given, "data": {**named, **given.get("data", {})}}
        lines = sum(count_lines(Path(corpus.source)) for corpus in pairs.training())
        return propose(given, lines, device)

    def look(self, data: Data | Files, force: bool, seed: int) -> list[str]:  # noqa: ARG002
        return look(pairs_of(data), force)

    def prepare(self, setup: Setup) -> TranslationTask:
        """Learn or find the pieces, the encoded corpus, the validation pairs."""
        if not isinstance(setup.design, EncoderDecoderDesign):
            raise UsageError(f"translation needs a model that reads and writes, not {setup.design.kind}")
        return TranslationTask(self, setup, Material.of(setup))

    def build_like(self, design: ModelDesign, shapes: Mapping[str, Sequence[int]]) -> EncoderDecoder:
        """Return a fresh model whose tensors have these shapes."""
        if not isinstance(design, EncoderDecoderDesign):
            raise UsageError(f"translation needs a model that reads and writes, not {design.kind}")
        tables = {name: shape[0] for name, shape in shapes.items() if name.endswith("embedding.weight")}
        shared = next(iter(tables.values()))  # a table that serves both sides is saved once
        return design.build(*(tables.get(f"{side}_embedding.weight", shared) for side in ("source", "target")))

    def open(self, loaded: Loaded, options: OpenOptions) -> Predictor:
        """Return the translator of a model folder."""
        from headway.tasks.translation.translator import Translator  # which needs the run, and that needs this module

        return Translator.open(loaded, options)


class TranslationBatch(NamedTuple):
    """Sentence pairs; the decoder reads `inputs` and predicts `labels`, which stand one position later."""

    source: Int[Tensor, "b s"]
    inputs: Int[Tensor, "b t"]
    labels: Int[Tensor, "b t"]


class TranslationForward(ForwardPass):
    """An encoder-decoder and sentence pairs. For R-Drop the batch goes through it twice in one pass."""

    batch: ClassVar[type] = TranslationBatch
    model: EncoderDecoder

    def forward(self, batch: TranslationBatch) -> Predictions:
        source, inputs, labels = batch
        if self.r_drop:
            source, inputs = (torch.cat([ids, ids]) for ids in (source, inputs))
        hidden, encoded = self.model.decode(source, inputs)
        return VocabularyPredictions(hidden, self.model.head, labels, self.r_drop, encoded)


class TranslationTask:
    """A translation run's data, loss and measure."""

    def __init__(self, settings: Translation, setup: Setup, material: Material) -> None:
        self.settings, self.setup, self.tokenizers, self.data = settings, setup, material.tokenizers, setup.pairs
        self.store, self.dev = material.pairs, material.dev
        self.measures = choose(settings.metrics)

    @property
    def measured(self) -> tuple[str, ...]:
        return tuple(measure.name for measure in self.measures)

    @property
    def fingerprint(self) -> str:
        """Changes with the training text, the pieces and the seed."""
        return self.store.facts.key

    def build(self) -> EncoderDecoder:
        design = self.setup.design
        assert isinstance(design, EncoderDecoderDesign)
        if design.tie_embeddings == "all" and self.tokenizers.source is not self.tokenizers.target:
            raise UsageError(
                'model.tie_embeddings = "all" needs one vocabulary for both sides; set model.tie_embeddings = "output"'
            )
        try:
            return design.build(len(self.tokenizers.source), len(self.tokenizers.target))
        except ValueError as error:
            raise UsageError(f"model: {error}") from None

    def forward_pass(self, model: nn.Module) -> ForwardPass:
        assert isinstance(model, EncoderDecoder)
        return TranslationForward(model, self.setup.training.r_drop)

    def stream(self, rank: int, world: int) -> Stream:
        setup = self.setup
        weights = [corpus.weight for corpus in self.data.training()]
        return Batches(self.store, setup.training.batch, setup.seed, rank, world, self.resample(), weights)

    def resample(self) -> tuple[Resampler, Resampler] | None:
        target = self.setup.target_text or self.setup.text
        shares = (self.setup.text.sampling, target.sampling)
        if not any(shares):
            return None
        sides = (self.tokenizers.source, self.tokenizers.target)
        source, target = (
            Resampler(side, share, seed=self.setup.seed) for side, share in zip(sides, shares, strict=True)
        )
        return source, target

    # ------------------------------------------------------------ validation

    def source_ids(self, pair: Pair) -> list[int]:
        tokenizer = self.tokenizers.source
        tag = [tokenizer.tags[pair.tag]] if pair.tag else []
        return [*tag, *tokenizer.encode(pair.source)[: self.data.longest], EOS]

    @torch.inference_mode()
    def validate(self, model: nn.Module, device: torch.device) -> Validation:
        assert isinstance(model, EncoderDecoder)
        if not self.dev:
            return Validation({})
        sentences = self.setup.training.validation_sentences
        scores = {"loss": self.dev_loss(model, share_of(self.dev, LOSS_PAIRS * sentences), device)}
        some = share_of(self.dev, sentences)
        outputs = self.translate(model, some, device)
        references = [pair.target for pair in some]
        language = self.data.target_language
        scores |= measure(outputs, references, self.measures, language).values_by_name()
        shown = median_index(some)
        sample = {"source": some[shown].source, "reference": references[shown], "output": outputs[shown]}
        looked = attending(model, self.tokenizers, self.source_ids(some[shown]), outputs[shown], device)
        return Validation({name: round(value, 5) for name, value in scores.items()}, sample, attention=looked)

    def dev_loss(self, model: EncoderDecoder, dev: list[Pair], device: torch.device) -> float:
        """Cross-entropy per token, unsmoothed."""
        longest, encode = self.data.longest, self.tokenizers.target.encode
        sources = [self.source_ids(pair) for pair in dev]
        targets = [encode(pair.target)[:longest] for pair in dev]
        total, count = 0.0, 0
        for pack in packs([max(len(s), len(t) + 1) for s, t in zip(sources, targets, strict=True)], 8192, 512):
            source = pad_rows([sources[i] for i in pack], device)
            inputs = pad_rows([[BOS, *targets[i]] for i in pack], device)
            labels = pad_rows([[*targets[i], EOS] for i in pack], device)
            loss = model.loss(source, inputs, labels, label_smoothing=0.0)
            total, count = total + float(loss.nll), count + int(loss.count)
        return total / max(1, count)

    def translate(self, model: EncoderDecoder, pairs: list[Pair], device: torch.device) -> list[str]:
        beam, limits = self.setup.training.validation_beam, self.settings.limits
        search = Beam(size=beam, limits=limits) if beam > 1 else Greedy(limits=limits)
        target = self.tokenizers.target
        sources = [self.source_ids(pair) for pair in pairs]
        outputs = [""] * len(pairs)
        for pack in packs([len(source) for source in sources], 8192, 256):
            logits_processors = self.settings.output.logits_processors([pairs[i].source for i in pack], target)
            results = search(model, pad_rows([sources[i] for i in pack], device), logits_processors)
            for index, found in zip(pack, results, strict=True):
                outputs[index] = target.decode(found[0].ids)
        return outputs

    # ------------------------------------------------------------ facts

    def where(self, indices: Any) -> str:
        real = indices[indices >= 0]
        corpora, lines = self.store.corpora(real), self.store.lines(real)
        named = [f"{self.data.training()[c].source}:{line}" for c, line in zip(corpora, lines, strict=True)]
        return ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")

    def save(self, folder: Path) -> None:
        self.tokenizers.save(folder)

    def facts(self) -> dict[str, Any]:
        facts = self.store.facts
        return {
            "pairs": facts.examples,
            "dropped": facts.dropped,
            "source_pieces": facts.pieces[0],
            "target_pieces": facts.pieces[1],
            "validation": len(self.dev),
            "vocabulary": [len(self.tokenizers.source), len(self.tokenizers.target)],
        }

    def card(self, folder: Path, scores: Mapping[str, float]) -> CardFacts:
        signatures = measure(["a"], ["a"], self.measures, self.data.target_language)
        counted = {name: score.signature for name, score in signatures.items()}
        files = ", ".join(corpus.source for corpus in self.data.training())
        return CardFacts(
            name=folder.name,
            task="translation",
            languages=[code for code in (self.data.source_language, self.data.target_language) if code],
            data=[
                DataFile("training", files, len(self.store)),
                DataFile("validation", self.data.dev_source or "held out", len(self.dev)),
            ],
            sizes={"vocabulary": len(self.tokenizers.target)},
            scores=[
                Score(name, value, counted.get(name, "nats a token"), "validation") for name, value in scores.items()
            ],
            use=f"headway translate {folder} < in.txt > out.txt",
        )


def share_of(pairs: list[Pair], count: int) -> list[Pair]:
    """The first so many; of several corpora pairs from all over, so that every language is measured."""
    if len(pairs) <= count or pairs[0].corpus == pairs[-1].corpus:
        return pairs[:count]
    return [pairs[place * len(pairs) // count] for place in range(count)]


def median_index(pairs: list[Pair]) -> int:
    """A sentence of middling length shows more than the first one."""
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i].source), i))
    return order[len(order) // 2]
