"""Text to text: translation, and everything that can be written as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.architecture import EncoderDecoderDesign
from headway.data import store
from headway.data.batches import Batches
from headway.data.corpus import Pair, content_key, dev_pairs, train_pairs
from headway.data.counts import Counts
from headway.errors import UsageError
from headway.losses import chunked
from headway.metrics import choose, measure
from headway.models import EncoderDecoder
from headway.search import Beam, Greedy
from headway.tasks.base import Setup
from headway.text.sampling import Resampler
from headway.text.tokenizer import Tokenizer, load
from headway.text.vocabulary import BOS, EOS
from headway.training.task import Stream, Validation
from headway.translating import packs, pad_rows


@dataclass(frozen=True)
class Translation:
    """Read a sentence, write a sentence."""

    kind: Literal["translation"] = "translation"

    def prepare(self, setup: Setup) -> TranslationTask:
        """Learn or load the tokenisers, encode the corpus once, keep the validation pairs."""
        if not isinstance(setup.design, EncoderDecoderDesign):
            raise UsageError(f"translation needs a model that reads and writes, not {setup.design.kind}")
        tokenizers = Tokenizers.of(setup)
        return TranslationTask(setup, tokenizers, encoded(setup, tokenizers), dev_pairs(setup.data, setup.seed))


@dataclass(frozen=True)
class Tokenizers:
    """Source and target, often one and the same."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def of(cls, setup: Setup) -> Tokenizers:
        """Those in the folder, or new ones learned from the training text and saved there at once."""
        try:
            return cls.load(setup.folder, trusted=True)
        except UsageError:
            made = learn(setup)
            made.save(setup.folder)
            return made

    @classmethod
    def load(cls, folder: Path, trusted: bool = False) -> Tokenizers:
        if any(folder.glob("joint.*")):
            joint = load(folder, "joint", trusted)
            return cls(joint, joint)
        return cls(load(folder, "source", trusted), load(folder, "target", trusted))

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self.source is self.target:
            self.source.save(folder, "joint")
        else:
            self.source.save(folder, "source")
            self.target.save(folder, "target")

    @property
    def fingerprint(self) -> str:
        return f"{self.source.fingerprint}-{self.target.fingerprint}"


def learn(setup: Setup) -> Tokenizers:
    tags = tuple(dict.fromkeys(corpus.tag for corpus in setup.data.training() if corpus.tag))
    joint = setup.target_text is None and setup.text.joint
    if joint:
        one = setup.text.learn((side for pair in text(setup) for side in (pair.source, pair.target)), tags)
        return Tokenizers(one, one)
    other = setup.target_text or setup.text
    return Tokenizers(
        setup.text.learn((pair.source for pair in text(setup)), tags),
        other.learn(pair.target for pair in text(setup)),
    )


def text(setup: Setup) -> Iterator[Pair]:
    return train_pairs(setup.data, setup.seed, Counts())


def encoded(setup: Setup, tokenizers: Tokenizers) -> store.Store:
    """The training pairs as numbers on disk; made once, found again by content."""
    key = f"{content_key(setup.data)}-{tokenizers.fingerprint}-{setup.seed}"
    place = setup.folder / "state" / "corpus"
    found = store.open(place, key)
    if found is None:
        counts = Counts()
        pairs = train_pairs(setup.data, setup.seed, counts)
        found = store.build(place, key, pairs, tokenizers.source, tokenizers.target, setup.data.longest)
    if not len(found):
        raise UsageError(
            f"no pair is left to train on; left out: {found.facts.dropped or 'nothing, the files are empty'}"
        )
    return found


class TranslationObjective(nn.Module):
    """Teacher forcing and label smoothing: (source, inputs, labels) to sums."""

    def __init__(self, model: EncoderDecoder, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(
        self, source: Int[Tensor, "b s"], inputs: Int[Tensor, "b t"], labels: Int[Tensor, "b t"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""], Int[Tensor, ""]]:
        head = self.model.head
        loss = chunked(self.model.hidden(source, inputs), head.weight, head.bias, labels, self.smoothing)
        return loss.total, loss.nll, loss.count


class TranslationTask:
    """A translation run's data, loss and measure."""

    def __init__(self, setup: Setup, tokenizers: Tokenizers, pairs: store.Store, dev: list[Pair]) -> None:
        self.setup, self.tokenizers, self.store, self.dev = setup, tokenizers, pairs, dev
        self.measures = choose("bleu,chrf")

    def build(self) -> EncoderDecoder:
        design = self.setup.design
        assert isinstance(design, EncoderDecoderDesign)
        return design.build(len(self.tokenizers.source), len(self.tokenizers.target))

    def objective(self, model: nn.Module) -> nn.Module:
        assert isinstance(model, EncoderDecoder)
        return TranslationObjective(model, self.setup.training.smoothing)

    def stream(self, rank: int, world: int) -> Stream:
        setup = self.setup
        weights = [corpus.weight for corpus in setup.data.training()]
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
        return [*tag, *tokenizer.encode(pair.source)[: self.setup.data.longest], EOS]

    @torch.inference_mode()
    def validate(self, model: nn.Module, device: torch.device) -> Validation:
        assert isinstance(model, EncoderDecoder)
        if not self.dev:
            return Validation({"loss": 0.0})
        scores = {"loss": self.dev_loss(model, device)}
        some = self.dev[: self.setup.training.validation_sentences]
        outputs = self.translate(model, some, device)
        references = [pair.target for pair in some]
        language = self.setup.data.target_language
        scores |= measure(outputs, references, self.measures, language).values_by_name()
        shown = median_index(some)
        sample = {"source": some[shown].source, "reference": references[shown], "output": outputs[shown]}
        return Validation({name: round(value, 5) for name, value in scores.items()}, sample)

    def dev_loss(self, model: EncoderDecoder, device: torch.device) -> float:
        """Cross-entropy per token, unsmoothed, over all validation pairs."""
        longest, encode = self.setup.data.longest, self.tokenizers.target.encode
        sources = [self.source_ids(pair) for pair in self.dev]
        targets = [encode(pair.target)[:longest] for pair in self.dev]
        total, count = 0.0, 0
        for pack in packs([max(len(s), len(t) + 1) for s, t in zip(sources, targets, strict=True)], 8192, 512):
            source = pad_rows([sources[i] for i in pack], device)
            inputs = pad_rows([[BOS, *targets[i]] for i in pack], device)
            labels = pad_rows([[*targets[i], EOS] for i in pack], device)
            loss = chunked(model.hidden(source, inputs), model.head.weight, model.head.bias, labels, 0.0)
            total, count = total + float(loss.nll), count + int(loss.count)
        return total / max(1, count)

    def translate(self, model: EncoderDecoder, pairs: list[Pair], device: torch.device) -> list[str]:
        beam = self.setup.training.validation_beam
        search = Beam(size=beam) if beam > 1 else Greedy()
        sources = [self.source_ids(pair) for pair in pairs]
        outputs = [""] * len(pairs)
        for pack in packs([len(source) for source in sources], 8192, 256):
            for index, found in zip(pack, search(model, pad_rows([sources[i] for i in pack], device)), strict=True):
                outputs[index] = self.tokenizers.target.decode(found[0].ids)
        return outputs

    # ------------------------------------------------------------ facts

    def where(self, indices: Any) -> str:
        real = indices[indices >= 0]
        corpora, lines = self.store.corpora(real), self.store.lines(real)
        named = [f"{self.setup.data.training()[c].source}:{line}" for c, line in zip(corpora, lines, strict=True)]
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


def median_index(pairs: list[Pair]) -> int:
    """A sentence of middling length shows more than the first one."""
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i].source), i))
    return order[len(order) // 2]
