"""Translator: the facade that the command line, servers and notebooks share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import regex
import torch

from headway.builtin import chosen
from headway.data.glossary import Glossary
from headway.data.padding import packs, pad_rows
from headway.devices import choose_device, one_thread
from headway.engines.base import Engine
from headway.engines.batches import SENTENCES, spread
from headway.engines.choice import choose
from headway.engines.cuda.engine import CudaEngine
from headway.engines.pytorch import TorchEngine
from headway.errors import UsageError
from headway.model.alignment import align
from headway.model.design import EncoderDecoderDesign
from headway.model.models import EncoderDecoder
from headway.search import Beam, Constrained, Ensemble, Greedy, Hypothesis, Limits, Sample, Search, score_texts
from headway.search.logits_processors import NoRepeat, Prefix, Shape
from headway.search.minimum_bayes_risk import least_risk
from headway.storage.checked_weights import filled
from headway.storage.folder import read_model
from headway.storage.publication import newest
from headway.tasks.run import Run, saved_run
from headway.tasks.translation.result import Translation, joined
from headway.tasks.translation.task import Translation as Task
from headway.text import protected_spans
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
class Manner:
    """How to translate."""

    beam: int = 5  # hypotheses that grow together; 1: greedy
    alpha: float = 0.6  # how much long outputs are favoured
    n_best: int = 1  # alternatives to give
    to: str = ""  # target language, for multilingual models
    glossary: Glossary = Glossary()  # terms that must come out
    keep: Sequence[str] = ()  # regular expressions; what they match in a source comes out as it is
    prefix: str = ""  # every output begins with this
    no_repeat: int = 0  # no run of so many pieces twice; 0: no rule
    split: bool = False  # translate every sentence of a line by itself; otherwise only where the line is too long
    alignments: bool = False  # say which word came from which
    temperature: float = 0.0  # above 0: sample instead of searching
    seed: int = 0  # of sampling
    best: bool = False  # minimum Bayes risk over samples and beam: slow and good
    limits: Limits = Limits()  # how long an output may be

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= 100:
            raise UsageError(f"beam is {self.beam}; it must be from 1 to 100")
        if not 1 <= self.n_best <= max(self.beam, 1):
            raise UsageError(f"n-best is {self.n_best}; it must be from 1 to the beam, {self.beam}")
        if not 0 <= self.alpha <= 10 or self.temperature < 0 or self.no_repeat < 0:
            raise UsageError("alpha must be from 0 to 10; temperature and no-repeat must not be negative")
        _ = self.patterns  # refuses what is no pattern

    @cached_property
    def patterns(self) -> list[regex.Pattern[str]]:
        return protected_spans.compiled(self.keep)

    @property
    def plain(self) -> bool:
        """Whether a beam is all that is asked for."""
        asked = (self.temperature, self.best, self.no_repeat, self.prefix, self.glossary.terms, self.keep)
        return not any((*asked, self.limits.shortest, self.limits.shortest_ratio))

    def search(self) -> Search:
        if self.temperature > 0:
            return Sample(temperature=self.temperature, seed=self.seed, limits=self.limits)
        if self.beam == 1:
            return Greedy(alpha=self.alpha, limits=self.limits)
        return Beam(size=self.beam, alpha=self.alpha, n_best=self.n_best, limits=self.limits)


@dataclass(frozen=True)
class Part:
    """One sentence on its way through the model."""

    text: str
    ids: list[int]
    phrases: list[list[int]]  # terms of the glossary that its output must hold
    spans: list[Span]  # that its output must hold as they are


def checked(one: Translation, how: Manner) -> Translation:
    """A translation that names what was to be kept and is not in its text."""
    wanted = [span.text for span in protected_spans.spans_of(one.source, how.patterns)]
    others = [checked(other, how) for other in one.alternatives]
    return replace(one, lost=protected_spans.lost(wanted, one.text), alternatives=others)


def engine_for(model: EncoderDecoder, run: Run, name: str, precision: str) -> Engine:
    """Recorded graphs on CUDA, else the fastest that runs here."""
    if model.head.weight.is_cuda and name in ("auto", "cuda"):
        return CudaEngine(model, "bf16" if precision == "auto" else precision)
    return choose(model, run.model, name, precision).engine  # pyright: ignore[reportArgumentType]


def check_together(engine: str, precision: str) -> None:
    for what, given, fits in (("engine", engine, "torch"), ("precision", precision, "fp32")):
        if given not in ("auto", fits):
            raise UsageError(f"{what} is {given!r}, but several models write together by {fits} alone; leave it out")


def translation_of(run: Run) -> Task:
    if not isinstance(run.task, Task):
        raise UsageError(f"this model was trained for {run.task.kind}, not to write text for a text")
    return run.task


class Translator:
    """A trained model, ready for raw text. Safe to use from several threads.

    With models beside it that have the same pieces it writes what they say on average; alignments are its own.
    """

    def __init__(
        self, run: Run, tokenizers: Tokenizers, model: EncoderDecoder, engine: Engine, device: torch.device
    ) -> None:
        self.run, self.tokenizers, self.model, self.engine, self.device = run, tokenizers, model, engine, device
        self.writer: EncoderDecoder | Ensemble = model
        self.task = translation_of(run)
        self.source_language, self.target_language = run.pairs.source_language, run.pairs.target_language
        self.longest = run.pairs.longest

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
        folder, where = chosen([] if folder is None else [Path(folder)])[0], choose_device(device or "auto")
        with one_thread():
            if not beside:
                return cls._open(folder, where, engine, precision)
            check_together(engine, precision)
            first = cls._open(folder, where, "torch", "fp32")
            return first._together([(Path(other), cls._open(Path(other), where, "torch", "fp32")) for other in beside])

    @classmethod
    def _open(cls, folder: Path, where: torch.device, engine: str, precision: str) -> Translator:
        files, tokenizers = newest(folder, lambda place: (read_model(place), Tokenizers.load(place)))
        run = saved_run(files.config_text, f"{folder}/config.toml")
        if not isinstance(run.model, EncoderDecoderDesign):
            raise UsageError(f"{folder}: a model of the kind {run.model.kind}, not a translator; see headway predict")
        model = filled(partial(run.model.build, len(tokenizers.source), len(tokenizers.target)), files.tensors)
        return cls(run, tokenizers, model, engine_for(model.to(where), run, engine, precision), where)

    @property
    def direction(self) -> str:
        pair = f"{self.source_language or 'a source'} to {self.target_language or 'a target'}"
        return "into several languages" if self.run.pairs.multilingual else f"from {pair}"

    def opposes(self, other: Translator) -> bool:
        """Whether it reads or writes another language, as far as both say."""
        ours, theirs = ((one.source_language, one.target_language) for one in (self, other))
        unlike = any(a and b and a != b for a, b in zip(ours, theirs, strict=True))
        return unlike or self.run.pairs.multilingual != other.run.pairs.multilingual

    def _together(self, others: Sequence[tuple[Path, Translator]]) -> Translator:
        for folder, other in others:
            if other.tokenizers.fingerprint != self.tokenizers.fingerprint:
                told = "train both on the same files and validation files, with the same [text]"
                raise UsageError(f"{folder}: its pieces are not those of the first model; {told}")
            if self.opposes(other):
                raise UsageError(f"{folder}: it translates {other.direction}, and the first model {self.direction}")
            self.longest = min(self.longest, other.longest)
        self.writer = Ensemble([self.model, *(other.model for _, other in others)])
        self.engine = TorchEngine(self.writer)
        return self

    def __call__(self, lines: Sequence[str], **manner: Any) -> list[Translation]:
        return self.translate(lines, **manner)

    def translate(self, lines: Sequence[str], **manner: Any) -> list[Translation]:
        """One translation for every line, in the same order; empty stays empty."""
        if isinstance(lines, str):
            raise UsageError("give a list of lines, not one string: translator([text])")
        how = self.manner(**manner)
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

    def manner(self, **given: Any) -> Manner:
        """How to translate, as was asked for; otherwise as the task has it."""
        return Manner(**{"limits": self.task.limits, **given})

    @property
    def window(self) -> int:
        """Lines sorted and packed together; HEADWAY_WINDOW sets it, fewer lines show sooner."""
        asked = os.environ.get("HEADWAY_WINDOW", str(WINDOW[self.device.type]))
        if not asked.isdecimal() or int(asked) < 1:
            raise UsageError(f"HEADWAY_WINDOW is {asked!r}; it must be a whole number of lines, at least 1")
        return int(asked)

    def stream(self, lines: Iterable[str], **manner: Any) -> Iterator[Translation]:
        """Translate as lines come, some thousands at a time: memory does not grow with the file."""
        source = iter(lines)
        while window := list(islice(source, self.window)):
            yield from self.translate(window, **manner)

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

    def cut(self, line: str, how: Manner) -> tuple[list[Part], list[str]]:
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

    def fitting(self, part: Part, longest: int, how: Manner) -> list[Part]:
        """Halves at the space nearest to the middle, until all fit."""
        if len(part.ids) <= longest or len(part.text) < 2:
            return [replace(part, ids=[*part.ids[: longest - 1], EOS])] if len(part.ids) > longest else [part]
        middle, free = len(part.text) // 2, protected_spans.hidden(part.text, part.spans)
        before, after = free.rfind(" ", 1, middle), free.find(" ", middle)
        spaces = [place for place in (before, after) if place > 0] or [protected_spans.seam(len(part.text), part.spans)]
        at = min(spaces, key=lambda place: abs(place - middle))
        halves = (part.text[:at], part.text[at:].lstrip())
        return [small for half in halves if half for small in self.fitting(self.part(half, how), longest, how)]

    def part(self, text: str, how: Manner) -> Part:
        source, target = self.tokenizers.source, self.tokenizers.target
        spans = protected_spans.spans_of(text, how.patterns)
        phrases = [target.encode(term) for term in how.glossary.wanted(protected_spans.hidden(text, spans))]
        return Part(text, [*self.tag(how.to), *source.encode(text), EOS], phrases, spans)

    def tag(self, to: str) -> list[int]:
        """The piece that asks for a language. A multilingual model must be asked for one."""
        tags = self.tokenizers.source.tags
        if to in tags:
            return [tags[to]]
        known = ", ".join(sorted(tags)) or "no tags: it knows one direction"
        if to:
            raise UsageError(f"language {to!r} is not in this model; it has {known}")
        if self.run.pairs.multilingual:
            raise UsageError(f"this model translates into {known}: say which, such as --to {min(tags)}")
        return []

    # ------------------------------------------------------------ ids to text

    def parts(self, parts: list[Part], how: Manner) -> list[Translation]:
        kind = self.device.type
        rows = PACK_ROWS[kind] * (QUEUE.get(kind, 1) if how.plain and not self.shapes(parts[:1], how) else 1)
        most = max(1, min(PACK_SENTENCES.get(kind, rows), rows // how.beam))
        batches = list(packs([len(part.ids) for part in parts], PACK_TOKENS[kind], most))
        made = spread(lambda batch: self.batch([parts[i] for i in batch], how), batches, self.engine.workers)
        found = dict(pair for batch, some in zip(batches, made, strict=True) for pair in zip(batch, some, strict=True))
        return [found[place] for place in range(len(parts))]

    def batch(self, parts: list[Part], how: Manner) -> list[Translation]:
        source = self.padded([part.ids for part in parts])
        found = self.decode(source, parts, how)
        if how.best:
            found = self.least_risk(source, parts, found, how)
        made = [self.made(part, hypotheses, how) for part, hypotheses in zip(parts, found, strict=True)]
        if how.alignments:
            words = align(self.model, self.tokenizers, source, [hypotheses[0].ids for hypotheses in found])
            made = [replace(one, alignment=links) for one, links in zip(made, words, strict=True)]
        return made

    def decode(self, source: torch.Tensor, parts: list[Part], how: Manner) -> list[list[Hypothesis]]:
        """What the model says by itself; where that lacks a span, the best that holds it."""
        search = how.search()
        if any(part.phrases for part in parts):
            beam = Beam(size=max(how.beam, 4), alpha=how.alpha, n_best=how.n_best, limits=how.limits)
            search = Constrained(beam, [part.phrases for part in parts])
        found = self.engine.translate(source, search, self.shapes(parts, how))
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

    def insisting(self, part: Part, how: Manner) -> Part:
        """The same with its spans as phrases: all that the target can spell and for which there is room."""
        room = int(how.limits.caps(self.padded([part.ids]))) - 1 - sum(map(len, part.phrases))
        spans = protected_spans.phrases_of(part.spans, self.tokenizers.target, room)
        return replace(part, phrases=[*part.phrases, *spans], spans=[])

    def shapes(self, parts: list[Part], how: Manner) -> tuple[Shape, ...]:
        shapes = list(self.task.output.shapes([part.text for part in parts], self.tokenizers.target))
        if how.no_repeat:
            shapes.append(NoRepeat(how.no_repeat))
        if how.prefix:
            shapes.append(Prefix([self.tokenizers.target.encode(how.prefix)] * len(parts)))
        return tuple(shapes)

    def least_risk(
        self, source: torch.Tensor, parts: list[Part], found: list[list[Hypothesis]], how: Manner
    ) -> list[list[Hypothesis]]:
        """Choose, of beam and samples that keep the spans, the one most like all samples (minimum Bayes risk, chrF)."""
        sample = Sample(count=MBR_SAMPLES, least=MBR_LEAST, seed=how.seed, limits=how.limits)
        draws = self.engine.translate(source, sample, self.shapes(parts, how))
        text, chosen = self.tokenizers.target.decode, []
        for part, beam, samples in zip(parts, found, draws, strict=True):
            whole = [one for one in samples if not self.lost(part, one)]
            chosen.append(least_risk([*beam, *whole], text, samples)[: how.n_best])
        return chosen

    def made(self, part: Part, hypotheses: list[Hypothesis], how: Manner) -> Translation:
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
