"""A trained language model: it goes on with texts, and is measured on texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headway.data.documents import Amounts, Reading
from headway.errors import UsageError
from headway.inspection.single_stack import SingleStack
from headway.inspection.trace_request import Check, TraceRequest, go_on
from headway.metrics import Score, Scores
from headway.metrics.evaluation import Evaluation, Tally
from headway.model.models import LanguageModel
from headway.tasks.base import Plain, Prediction, Predictor
from headway.tasks.decoding_options import GenerationOptions
from headway.tasks.language_model.generation import Generator
from headway.tasks.language_model.perplexity import Document, Perplexity, remembered, strided
from headway.text.tokenizer import Tokenizer

WINDOW = 64  # lines continued together
OVERLAP = 4  # windows that hold every token, where they overlap
HEAD = ("read in", "loss", "perplexity", "of words", "bits a character", "bits a byte", "tokens/s")


@dataclass(frozen=True)
class LanguagePredictor(Predictor):
    """A language model, ready for raw text."""

    kind: ClassVar[str] = "language_model"
    noun: ClassVar[str] = "language model"

    model: LanguageModel
    tokenizer: Tokenizer
    segment: int
    way: Reading
    options: GenerationOptions = GenerationOptions()

    @property
    def generator(self) -> Generator:
        return Generator(self.model, self.tokenizer, self.segment + self.model.memory, self.way.whole)

    def with_options(self, **options: Any) -> Predictor:
        if options.keys() - GenerationOptions.__dataclass_fields__.keys():
            return super().with_options(**options)
        return replace(self, options=GenerationOptions(**options))

    def facts(self, folder: Path) -> dict[str, Any]:
        return {"task": self.kind} | SingleStack(self.model, "decoder", "stack").server_facts(len(self.tokenizer))

    def trace(self, request: TraceRequest, check: Check = go_on) -> dict[str, Any]:
        from headway.tasks.language_model.trace import trace_language_model  # which needs this module

        return trace_language_model(self, request)

    # ------------------------------------------------------------ text

    def write(self, prompt: str, hear: Callable[[str], None] | None = None) -> str:
        """What follows a prompt, over as many lines as it takes; `hear` gets it as it is written."""
        generator = self.generator
        return generator.write(generator.ids(prompt), self.options, hear)

    def predict(self, lines: Iterable[str], columns: bool = False) -> Iterator[Prediction]:
        """Each line, continued to its end."""
        if columns:
            raise UsageError("a language model reads lines of text, not columns")
        generator, source = self.generator, iter(lines)
        while some := list(islice(source, WINDOW)):
            prompts = [generator.ids(line) for line in some]
            for prompt, line, best in zip(prompts, some, generator.finish(prompts, self.options), strict=True):
                text = " ".join(generator.after(prompt, best.ids).splitlines())
                yield Plain(text, {"prompt": line, "score": round(best.total, 4), "finished": best.finished})

    # ------------------------------------------------------------ measures

    def read(self, files: Sequence[Path]) -> tuple[list[Document], Amounts]:
        """Documents as numbers, each with its begin; and how much text that is."""
        amounts, documents = Amounts(), list[list[int]]()
        for block, rows in self.way.encoded(self.way.lines(files), self.tokenizer):
            amounts.add(block, rows)
            for line, row in zip(block, rows, strict=True):
                if line.begins:
                    documents.append([])
                documents[-1].extend(row)
        if not documents:
            raise UsageError(f"{files[0]}: no text to measure on; every line is empty")
        return [np.array(document, np.int64) for document in documents], amounts

    def readings(self) -> dict[str, Callable[[list[Document]], list[np.ndarray]]]:
        """The ways to read a text, the best last."""
        length, stride = self.segment, max(1, self.segment // OVERLAP)
        ways: dict[str, Callable[[list[Document]], list[np.ndarray]]] = {
            f"segments of {length}": lambda some: strided(self.model, some, length, length),
            f"windows of {length} by {stride}": lambda some: strided(self.model, some, length, stride),
        }
        if self.model.memory:
            ways[f"remembering {self.model.memory}"] = lambda some: remembered(self.model, some, length)
        return ways

    def evaluate(self, files: Sequence[Path]) -> Evaluation:
        """Perplexity by every way of reading; the scores are those of the way with most context."""
        documents, amounts = self.read(files)
        rows, found = [], Perplexity(0.0, amounts)
        for name, way in self.readings().items():
            begun = time.monotonic()
            found = Perplexity(float(sum(one.sum() for one in way(documents))), amounts)
            speed = amounts.tokens / max(1e-9, time.monotonic() - begun)
            rows.append((name, *(round(number, 4) for number in figures(found).values()), round(speed)))
        counted = {name: getattr(amounts, name) for name in Amounts.__dataclass_fields__}
        tables = (
            Tally("by way of reading", HEAD, tuple(rows), digits=4),
            Tally("counted", ("what", "how many"), tuple(counted.items())),
        )
        return Evaluation(amounts.tokens, scores(found), tables, tuple(odd(amounts)))


def figures(found: Perplexity) -> dict[str, float]:
    return {
        "loss": found.loss,
        "perplexity": found.of_tokens,
        "perplexity_of_words": found.of_words,
        "bits_per_character": found.bits_per_character,
        "bits_per_byte": found.bits_per_byte,
    }


def scores(found: Perplexity) -> Scores:
    per = found.amounts
    counts = (per.tokens, per.tokens, per.words, per.characters, per.bytes)
    units = ("nats a token", "of tokens", "of words", "bits a character", "bits a byte")
    named = zip(figures(found).items(), counts, units, strict=True)
    return Scores({
        name: Score(value, signature=f"{unit}, {count:,} of them", higher_is_better=False)
        for (name, value), count, unit in named
    })  # fmt: skip


def odd(amounts: Amounts) -> list[str]:
    if not amounts.unknown:
        return []
    share = amounts.unknown / max(1, amounts.tokens)
    return [
        f"{amounts.unknown:,} tokens ({share:.1%}) are not in the vocabulary and count as one unknown piece: "
        "compare only with models of the same vocabulary"
    ]
