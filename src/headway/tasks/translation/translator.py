"""Translator: the facade that the command line, servers and notebooks share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

import torch

from headway.builtin import chosen
from headway.data.languages import languages_of
from headway.data.padding import packs, pad_rows
from headway.devices import one_thread
from headway.engines.attended import Attended
from headway.engines.batches import SENTENCES, spread
from headway.engines.choice import Chosen, choose
from headway.engines.pytorch import TorchEngine
from headway.errors import UsageError
from headway.inspection.trace_request import Check, TraceRequest, go_on
from headway.metrics import choose as choose_measures
from headway.metrics import measure
from headway.metrics.evaluation import Evaluation
from headway.model.alignment import align
from headway.model.design import EncoderDecoderDesign
from headway.model.models import EncoderDecoder
from headway.reports.testset import read_lines
from headway.search import Beam, Constrained, Ensemble, Hypothesis, Limits, Sample, score_texts
from headway.search.logits_processors import ForcedPrefix, LogitsProcessor, NoRepeatNgram
from headway.search.minimum_bayes_risk import rerank_by_risk
from headway.storage.checked_weights import filled
from headway.tasks.base import Loaded, OpenOptions, Plain, Prediction, Predictor
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.predictors import open_together
from headway.tasks.run import Run
from headway.tasks.translation.facts import server_facts
from headway.tasks.translation.result import Translation, joined
from headway.tasks.translation.task import Translation as Task
from headway.text import protected_spans
from headway.text.languages import find_language
from headway.text.protected_spans import Span
from headway.text.sentences import sentences
from headway.text.tokenizer import Tokenizers
from headway.text.vocabulary import EOS

WINDOW = {"cpu": 2000, "cuda": 16_000, "mps": 4000}  # lines sorted and packed together when translating a stream
PACK_TOKENS = {"cpu": 2048, "cuda": 32_768, "mps": 8192}
PACK_ROWS = {"cpu": 64, "cuda": 1024, "mps": 256}  # of all hypotheses
PACK_SENTENCES = {"cpu": SENTENCES}
QUEUE = {"cuda": 4}  # so many times as much in a search whose sentences can wait for a lane
MBR_SAMPLES, MBR_LEAST = 16, 0.02  # without the unlikeliest pieces samples are better references (docs/results.md)
INSISTING_BEAM = 10  # at least; a narrower one says the spans too soon


@dataclass(frozen=True)
class Part:
    """One sentence on its way through the model."""

    text: str
    ids: list[int]
    phrases: list[list[int]]  # terms of the glossary that its output must hold
    spans: list[Span]  # that its output must hold as they are


def checked(one: Translation, how: DecodingOptions) -> Translation:
    """A translation that names what was to be kept and is not in its text."""
    wanted = [span.text for span in protected_spans.spans_of(one.source, how.patterns)]
    others = [checked(other, how) for other in one.alternatives]
    return replace(one, lost=protected_spans.lost(wanted, one.text), alternatives=others)


def translation_of(run: Run) -> Task:
    if not isinstance(run.task, Task):
        raise UsageError(f"this model was trained for {run.task.kind}, not to write text for a text")
    return run.task


class Translator(Predictor):
    """A trained model, ready for raw text. Safe to use from several threads.

    With models beside it that have the same pieces it writes what they say on average; alignments are its own.
    """

    kind: ClassVar[str] = "translation"
    noun: ClassVar[str] = "translator"

    def __init__(
        self, run: Run, tokenizers: Tokenizers, model: EncoderDecoder, chosen: Chosen, device: torch.device
    ) -> None:
        self.run, self.tokenizers, self.model, self.device = run, tokenizers, model, device
        self.engine, self.chosen = chosen.engine, chosen
        self.writer: EncoderDecoder | Ensemble = model
        self.task = translation_of(run)
        self.source_language, self.target_language = run.pairs.source_language, run.pairs.target_language
        self.longest = run.pairs.longest
        self.to = ""  # target language of predictions, for multilingual models

    @classmethod
    def load(
        cls,
        folder: str | Path | None = None,
        device: str | None = None,
        engine: str = "auto",
        precision: str = "auto",
        beside: Sequence[str | Path] = (),
    ) -> Translator:
        """Open a model folder; without one, the model of the package. Nothing in it is executed.

        `beside`: other models of the same pieces, which write together with it.
        """
        if isinstance(beside, str):
            raise UsageError("give a list of folders, not one string: beside=[folder]")
        folder, others = chosen([] if folder is None else [Path(folder)])[0], [Path(other) for other in beside]
        with one_thread():
            found = open_together(folder, others, device or "auto", OpenOptions(engine, precision))
        if not isinstance(found, Translator):
            raise UsageError(f"{folder}: a {found.noun}, not a translator; see headway predict")
        return found

    @classmethod
    def open(cls, loaded: Loaded, options: OpenOptions) -> Translator:
        """Return the translator of a model folder."""
        run, device = loaded.run, loaded.device
        if not isinstance(run.model, EncoderDecoderDesign):
            raise UsageError(f"{loaded.folder}: a model of the kind {run.model.kind}, which cannot translate")
        tokenizers = Tokenizers.load(loaded.folder)
        source, target = languages_of(run.pairs, loaded.folder)
        model = filled(partial(run.model.build, len(tokenizers.source), len(tokenizers.target)), loaded.tensors)
        known = replace(run, data=replace(run.pairs, source_language=source, target_language=target))
        engine = choose(model.to(device), run.model, options.engine, options.precision)
        return cls(known, tokenizers, model, engine, device)

    @property
    def direction(self) -> str:
        pair = f"{self.source_language or 'a source'} to {self.target_language or 'a target'}"
        return "into several languages" if self.run.pairs.multilingual else f"from {pair}"

    def opposes(self, other: Translator) -> bool:
        """Whether it reads or writes another language, as far as both say."""
        ours, theirs = ((one.source_language, one.target_language) for one in (self, other))
        unlike = any(a and b and a != b for a, b in zip(ours, theirs, strict=True))
        return unlike or self.run.pairs.multilingual != other.run.pairs.multilingual

    def combine(self, others: Sequence[tuple[Path, Predictor]]) -> Translator:
        """Return this translator, which from now on writes what it and the others say on average."""
        translators = [(folder, cast(Translator, other)) for folder, other in others]
        for folder, other in translators:
            if other.tokenizers.fingerprint != self.tokenizers.fingerprint:
                told = "train both on the same files and validation files, with the same [text]"
                raise UsageError(f"{folder}: its pieces are not those of the first model; {told}")
            if self.opposes(other):
                raise UsageError(f"{folder}: it translates {other.direction}, and the first model {self.direction}")
            self.longest = min(self.longest, other.longest)
        self.writer = Ensemble([self.model, *(other.model for _, other in translators)])
        self.engine = TorchEngine(self.writer)
        self.chosen = Chosen(self.engine, "several models write together in PyTorch alone")
        return self

    def __call__(
        self, lines: Sequence[str], options: DecodingOptions | None = None, **changes: Any
    ) -> list[Translation]:
        return self.translate(lines, options, **changes)

    def translate(
        self, lines: Sequence[str], options: DecodingOptions | None = None, **changes: Any
    ) -> list[Translation]:
        """Return one translation for every line, in the same order; empty lines stay empty.

        Options may also be given by name, as in translate(lines, beam=1); see `headway.DecodingOptions`.
        """
        if isinstance(lines, str):
            raise UsageError("give a list of lines, not one string: translator([text])")
        how = self.decoding(options, **changes)
        paragraphs = [self.cut(line, how) for line in lines]
        flat = [part for parts, _ in paragraphs for part in parts]
        done = iter(self.parts(flat, how))
        made = [
            joined(line, [next(done) for _ in parts], gaps)
            if parts
            else Translation(line if not line.strip() else "", line)
            for line, (parts, gaps) in zip(lines, paragraphs, strict=True)
        ]
        return [checked(one, how) for one in made] if how.keep else made

    # ------------------------------------------------------------ as a predictor

    def predict(self, lines: Iterable[str], columns: bool = False) -> Iterator[Prediction]:
        if columns:
            raise UsageError("a translator reads lines of text, not columns")
        for one in self.stream(lines, to=self.to):
            yield Plain(" ".join(one.text.splitlines()), {"source": one.source, "score": round(one.score, 4)})

    def evaluate(self, files: Sequence[Path]) -> Evaluation:
        if len(files) != 2:
            count = f"{len(files)} {'file' if len(files) == 1 else 'files'}"
            raise UsageError(f"{count}: a translator is measured on two, --source and --reference")
        sources, references = (read_lines(path) for path in files)
        if len(sources) != len(references):
            raise UsageError(f"{files[0]} has {len(sources):,} lines but {files[1]} has {len(references):,}")
        outputs = [one.text for one in self.stream(sources, to=self.to)]
        measures, language = choose_measures("bleu,chrf,ter"), self.to or self.target_language
        return Evaluation(len(outputs), measure(outputs, references, measures, language))

    def with_options(self, **options: Any) -> Predictor:
        if options.keys() - {"to"}:
            return super().with_options(**options)
        self.tag(options["to"])  # refuse a language that the model does not know before anything is read
        changed = copy(self)
        changed.to = options["to"]
        return changed

    def prefix_ids(self, prefix: str) -> tuple[int, ...]:
        return tuple(self.tokenizers.target.encode(prefix)) if prefix else ()

    def facts(self, folder: Path) -> dict[str, Any]:
        return server_facts(self, folder)

    def trace(self, request: TraceRequest, check: Check = go_on) -> dict[str, Any]:
        from headway.tasks.translation.trace import trace_translation  # which needs this module

        return trace_translation(self, request, check)

    def share_machine(self, workers: int, check: Callable[[], None]) -> None:
        self.engine.workers = min(self.engine.workers, workers)
        self.engine = Attended(self.engine, check)

    # ------------------------------------------------------------ how

    def decoding(self, options: DecodingOptions | None = None, **changes: Any) -> DecodingOptions:
        """Return the options with those that are given by name changed."""
        return replace(options or DecodingOptions(), **changes)

    def limits(self, how: DecodingOptions) -> Limits:
        """Return how long an output may be: as asked for, else as the task has it."""
        return how.limits or self.task.limits

    @property
    def window(self) -> int:
        """Lines sorted and packed together; HEADWAY_WINDOW sets it, fewer lines show sooner."""
        asked = os.environ.get("HEADWAY_WINDOW", str(WINDOW[self.device.type]))
        if not asked.isdecimal() or int(asked) < 1:
            raise UsageError(f"HEADWAY_WINDOW is {asked!r}; it must be a whole number of lines, at least 1")
        return int(asked)

    def stream(
        self, lines: Iterable[str], options: DecodingOptions | None = None, **changes: Any
    ) -> Iterator[Translation]:
        """Translate as lines come, some thousands at a time: memory does not grow with the file."""
        source = iter(lines)
        while window := list(islice(source, self.window)):
            yield from self.translate(window, options, **changes)

    def score(self, sources: Sequence[str], targets: Sequence[str], to: str = "") -> list[Hypothesis]:
        """What the model thinks of given translations (forced decoding)."""
        if len(sources) != len(targets):
            raise UsageError(f"{len(sources)} sources and {len(targets)} targets: give as many of each")
        tag = self.tag(to)
        ids = [[*tag, *self.tokenizers.source.encode(text), EOS] for text in sources]
        texts = [self.tokenizers.target.encode(text) for text in targets]
        found: list[Hypothesis | None] = [None] * len(ids)
        for pack in packs([max(len(s), len(t) + 1) for s, t in zip(ids, texts, strict=True)], 4096, 64):
            results = score_texts(self.writer, self.padded([ids[i] for i in pack]), [texts[i] for i in pack])
            for index, result in zip(pack, results, strict=True):
                found[index] = result
        return [one for one in found if one is not None]

    # ------------------------------------------------------------ text to ids

    def cut(self, line: str, how: DecodingOptions) -> tuple[list[Part], list[str]]:
        """A line that fits is one part; a longer one is cut into sentences, and those that do not fit by length."""
        if not line.strip():
            return [], []
        longest = self.longest
        if not how.split and len((whole := self.part(line, how)).ids) <= longest:
            return [whole], [""]
        parts, gaps = [], []
        for sentence, gap in protected_spans.unbroken(sentences(line), protected_spans.spans_of(line, how.patterns)):
            pieces = self.fitting(self.part(sentence, how), longest, how)
            parts += pieces
            gaps += [*[" "] * (len(pieces) - 1), gap]
        return parts, gaps

    def fitting(self, part: Part, longest: int, how: DecodingOptions) -> list[Part]:
        """Halves at the space nearest to the middle, until all fit."""
        if len(part.ids) <= longest or len(part.text) < 2:
            return [replace(part, ids=[*part.ids[: longest - 1], EOS])] if len(part.ids) > longest else [part]
        middle, free = len(part.text) // 2, protected_spans.hidden(part.text, part.spans)
        before, after = free.rfind(" ", 1, middle), free.find(" ", middle)
        spaces = [place for place in (before, after) if place > 0] or [protected_spans.seam(len(part.text), part.spans)]
        at = min(spaces, key=lambda place: abs(place - middle))
        halves = (part.text[:at], part.text[at:].lstrip())
        return [small for half in halves if half for small in self.fitting(self.part(half, how), longest, how)]

    def part(self, text: str, how: DecodingOptions) -> Part:
        source, target = self.tokenizers.source, self.tokenizers.target
        spans = protected_spans.spans_of(text, how.patterns)
        phrases = [target.encode(term) for term in how.glossary.wanted(protected_spans.hidden(text, spans))]
        return Part(text, [*self.tag(how.to), *source.encode(text), EOS], phrases, spans)

    def tag(self, to: str) -> list[int]:
        """The piece that asks for a language. A multilingual model must be asked for one."""
        tags = self.tokenizers.source.tags
        if (known_as := find_language(to, tags) if to else None) is not None:
            return [tags[known_as]]
        known = ", ".join(sorted(tags)) or "no tags: it knows one direction"
        if to:
            raise UsageError(f"language {to!r} is not in this model; it has {known}")
        if self.run.pairs.multilingual:
            raise UsageError(f"this model translates into {known}: say which, such as --to {min(tags)}")
        return []

    # ------------------------------------------------------------ ids to text

    def parts(self, parts: list[Part], how: DecodingOptions) -> list[Translation]:
        kind = self.device.type
        limits, rules = self.limits(how), self.logits_processors(parts[:1], how)
        plain = how.plain and not (limits.has_minimum or rules)
        rows = PACK_ROWS[kind] * (QUEUE.get(kind, 1) if plain else 1)
        most = max(1, min(PACK_SENTENCES.get(kind, rows), rows // how.beam))
        batches = list(packs([len(part.ids) for part in parts], PACK_TOKENS[kind], most))
        made = spread(lambda batch: self.batch([parts[i] for i in batch], how), batches, self.engine.workers)
        found = dict(pair for batch, some in zip(batches, made, strict=True) for pair in zip(batch, some, strict=True))
        return [found[place] for place in range(len(parts))]

    def batch(self, parts: list[Part], how: DecodingOptions) -> list[Translation]:
        source = self.padded([part.ids for part in parts])
        found = self.decode(source, parts, how)
        if how.best:
            found = self.rerank_by_risk(source, parts, found, how)
        made = [self.made(part, hypotheses, how) for part, hypotheses in zip(parts, found, strict=True)]
        if how.alignments:
            words = align(self.model, self.tokenizers, source, [hypotheses[0].ids for hypotheses in found])
            made = [replace(one, alignment=links) for one, links in zip(made, words, strict=True)]
        return made

    def decode(self, source: torch.Tensor, parts: list[Part], how: DecodingOptions) -> list[list[Hypothesis]]:
        """What the model says by itself; where that lacks a span, the best that holds it."""
        search = how.search(self.limits(how), how.n_best)
        if any(part.phrases for part in parts):
            beam = Beam(size=max(how.beam, 4), alpha=how.alpha, n_best=how.n_best, limits=self.limits(how))
            search = Constrained(beam, [part.phrases for part in parts])
        found = self.engine.translate(source, search, self.logits_processors(parts, how))
        short = [place for place, part in enumerate(parts) if any(self.lost(part, one) for one in found[place])]
        forced = {place: part for place in short if (part := self.insisting(parts[place], how)).phrases}
        if forced:
            wider = replace(how, beam=max(how.beam, INSISTING_BEAM))
            places, most = list(forced), max(1, PACK_ROWS[self.device.type] // wider.beam)
            for some in (places[start : start + most] for start in range(0, len(places), most)):
                again = [forced[place] for place in some]
                outputs = self.decode(self.padded([part.ids for part in again]), again, wider)
                for place, one in zip(some, outputs, strict=True):
                    found[place] = one
        return found

    def lost(self, part: Part, hypothesis: Hypothesis) -> list[str]:
        """The spans that an output lacks."""
        wanted = [span.text for span in part.spans]
        return protected_spans.lost(wanted, self.tokenizers.target.decode(hypothesis.ids)) if wanted else []

    def insisting(self, part: Part, how: DecodingOptions) -> Part:
        """The same with its spans as phrases: all that the target can spell and for which there is room."""
        room = int(self.limits(how).caps(self.padded([part.ids]))) - 1 - sum(map(len, part.phrases))
        spans = protected_spans.phrases_of(part.spans, self.tokenizers.target, room)
        return replace(part, phrases=[*part.phrases, *spans], spans=[])

    def logits_processors(self, parts: list[Part], how: DecodingOptions) -> tuple[LogitsProcessor, ...]:
        logits_processors = list(
            self.task.output.logits_processors([part.text for part in parts], self.tokenizers.target)
        )
        if how.no_repeat:
            logits_processors.append(NoRepeatNgram(how.no_repeat))
        if how.prefix:
            logits_processors.append(ForcedPrefix([self.tokenizers.target.encode(how.prefix)] * len(parts)))
        return tuple(logits_processors)

    def rerank_by_risk(
        self, source: torch.Tensor, parts: list[Part], found: list[list[Hypothesis]], how: DecodingOptions
    ) -> list[list[Hypothesis]]:
        """Choose, of beam and samples that keep the spans, the one most like all samples (minimum Bayes risk, chrF)."""
        sample = Sample(count=MBR_SAMPLES, least=MBR_LEAST, seed=how.seed, limits=self.limits(how))
        draws = self.engine.translate(source, sample, self.logits_processors(parts, how))
        text, chosen = self.tokenizers.target.decode, []
        for part, beam, samples in zip(parts, found, draws, strict=True):
            whole = [one for one in samples if not self.lost(part, one)]
            chosen.append(rerank_by_risk([*beam, *whole], text, samples)[: how.n_best])
        return chosen

    def made(self, part: Part, hypotheses: list[Hypothesis], how: DecodingOptions) -> Translation:
        first, *others = [self.single(part, hypothesis) for hypothesis in hypotheses[: how.n_best]]
        return replace(first, alternatives=others)

    def single(self, part: Part, hypothesis: Hypothesis) -> Translation:
        target = self.tokenizers.target
        return Translation(
            text=target.decode(hypothesis.ids),
            source=part.text,
            score=hypothesis.score,
            tokens=[target.piece(index) for index in hypothesis.ids],
            token_scores=hypothesis.token_scores,
            finished=hypothesis.finished,
            looping=hypothesis.looping and not self.task.output.repeats,
        )

    def padded(self, rows: list[list[int]]) -> torch.Tensor:
        return pad_rows(rows, self.device)
