"""Sentence pairs to measure a changed model on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxtyping import Int
from torch import Tensor

from headway.data.padding import packs, pad_rows
from headway.errors import UsageError
from headway.inspection.trace_request import LONGEST
from headway.metrics import choose, measure
from headway.model.models import EncoderDecoder
from headway.search import Greedy, score
from headway.tasks.translation.translator import Translator
from headway.text.vocabulary import EOS, PAD

TOKENS, ROWS = 2048, 64  # of a batch
Batch = tuple[Int[Tensor, "b s"], Int[Tensor, "b t"]]


class Pairs:
    """Sources and targets as pieces; without targets, what the model itself says stands for them."""

    def __init__(
        self, translator: Translator, sources: Sequence[str], targets: Sequence[str] | None, to: str = ""
    ) -> None:
        self.tokenizers, self.device = translator.tokenizers, translator.device
        self.language, tag = to or translator.target_language, translator.tag(to)
        texts = [one.text for one in translator.translate(sources, to=to)] if targets is None else list(targets)
        encoded = (self.tokenizers.source.encode_many(sources), self.tokenizers.target.encode_many(texts))
        rows = [
            ([*tag, *source, EOS], [*target, EOS], text) for source, target, text in zip(*encoded, texts, strict=True)
        ]
        kept = [row for row in rows if 1 + len(tag) < len(row[0]) <= LONGEST and 1 < len(row[1]) <= LONGEST]
        if not kept:
            raise UsageError(f"no sentence is left: all are empty or longer than {LONGEST} pieces; give others")
        kept = [kept[place] for pack in self.packs(kept) for place in pack]  # those of one batch side by side
        self.sources, self.targets, self.texts = (list(column) for column in zip(*kept, strict=True))

    @staticmethod
    def packs(rows: Sequence[tuple[list[int], list[int], str]]) -> Iterator[list[int]]:
        return packs([max(len(source), len(target)) for source, target, _ in rows], TOKENS, ROWS)

    def __len__(self) -> int:
        return len(self.sources)

    def batches(self) -> Iterator[Batch]:
        rows = list(zip(self.sources, self.targets, self.texts, strict=True))
        for pack in self.packs(rows):
            source, target = ([side[place] for place in pack] for side in (self.sources, self.targets))
            yield pad_rows(source, self.device), pad_rows(target, self.device)

    def loss(self, model: EncoderDecoder) -> float:
        """The mean over pieces of minus their log-probability."""
        total, pieces = 0.0, 0
        for source, target in self.batches():
            total -= float(score(model, source, target).sum())
            pieces += int((target != PAD).sum())
        return total / pieces

    def scores(self, model: EncoderDecoder) -> dict[str, float]:
        """BLEU and chrF of what the model writes, greedily."""
        said = [rows[0].ids for source, _ in self.batches() for rows in Greedy()(model, source)]
        texts = [self.tokenizers.target.decode(ids) for ids in said]
        found = measure(texts, self.texts, choose("bleu,chrf"), self.language)
        return {name: one.value for name, one in found.items()}
