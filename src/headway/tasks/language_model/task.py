"""Language modelling: read running text, say how it goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from headway.config import merge
from headway.data import store
from headway.data.corpus import Data
from headway.data.documents import Line, Reading, Unit
from headway.data.files import Files
from headway.data.formats import open_bytes
from headway.data.segments import InOrder, Shuffled, Size
from headway.data.tokens import Tokens, build_tokens, open_tokens
from headway.errors import UsageError
from headway.model.design import LanguageModelDesign
from headway.model.models import LanguageModel
from headway.model.size import check_range, check_share
from headway.storage.card import CardFacts, DataFile, Score
from headway.tasks.base import Setup, files_of
from headway.tasks.language_model.generation import Generator, Manner
from headway.tasks.language_model.next_token import InputNoise, MemoryForward, SegmentForward
from headway.tasks.language_model.perplexity import Perplexity, remembered, strided
from headway.tasks.material import kept, place_of
from headway.text.tokenizer import Tokenizer, Tokenizers
from headway.training.forward_pass import ForwardPass
from headway.training.plan import optimiser_for, shapes_for
from headway.training.task import Stream, Validation

SIGNATURES = {
    "loss": "nats a token",
    "perplexity": "a token; a line's end is one more",
    "bits_per_character": "a line's end is one more character",
}
Part = Literal["train", "dev"]
SHOWN = 48  # tokens of a validation sample, and of its prompt


@dataclass(frozen=True)
class LanguageModelling:
    """Language modelling: predict how running text goes on."""

    section: ClassVar[bool] = True
    implies: ClassVar[Mapping[str, Any]] = {"data": {"kind": "files"}, "model": {"kind": "language_model"}}

    kind: Literal["language_model"] = "language_model"
    segment: int = 256  # segment length in tokens; with model.memory each one also sees the memory of those before it
    interleaved_batches: int = 1  # with model.memory: batches of different rows that alternate, each with a memory
    document: Unit = "file"  # unit without context before it: a file, a paragraph (between empty lines) or a line
    line_end: Literal["piece", "text"] = (
        "piece"  # piece: lines end with the end token; text: whole documents are encoded
    )
    held_out: float = 0.1  # share of the text, at its end, that is held out for validation if data.dev is not set
    word_dropout: float = 0.0  # share of training tokens that are replaced by the unknown token
    vocabulary_dropout: float = 0.0  # share of the vocabulary that is replaced by the unknown token in a training step
    memory_dropout: float = 0.0  # with model.memory: share of rows that do not see their memory in a training step

    def __post_init__(self) -> None:
        check_range("segment", self.segment, 1, 1_000_000)
        check_range("interleaved_batches", self.interleaved_batches, 1, 1000)
        check_share("word_dropout", self.word_dropout)
        check_share("vocabulary_dropout", self.vocabulary_dropout)
        check_share("memory_dropout", self.memory_dropout)
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is {self.held_out}; it must be at least 0 and less than 1")

    def propose(self, given: dict[str, Any], data: Data | Files, device: torch.device) -> dict[str, Any]:
        """Sizes by the amount of text and by the machine."""
        files = files_of(data)
        files.check()
        return merge(proposal(sum(byte_count(path) for path in files.training()), device, given), given)

    def look(self, data: Data | Files, force: bool, seed: int) -> list[str]:  # noqa: ARG002
        return []

    def prepare(self, setup: Setup) -> LanguageModelTask:
        """Learn or find the pieces, the encoded text and the part of it to validate on."""
        if not isinstance(setup.design, LanguageModelDesign):
            raise UsageError(
                f"a language model only looks back: model.kind is {setup.design.kind!r}, not language_model"
            )
        check_design(setup.design, self.segment)
        if not setup.design.memory and (self.memory_dropout or self.interleaved_batches > 1):
            raise UsageError(
                f"task.memory_dropout is {self.memory_dropout} and task.interleaved_batches "
                f"{self.interleaved_batches}, but the model has no memory; set model.memory, or leave them out"
            )
        return LanguageModelTask(setup, self, setup.design)

    def reading(self, files: Files) -> Reading:
        return Reading(self.document, self.line_end == "text", files.invalid)


def check_design(design: LanguageModelDesign, segment: int) -> None:
    """The context must fit the positions."""
    positions = design.positions.build(design.size())
    if positions.longest is not None and segment > positions.longest:
        raise UsageError(
            f"task.segment is {segment}, but the model knows {positions.longest} positions; "
            "lower it, or raise model.longest"
        )
    if design.memory and not positions.relative:
        raise UsageError(
            f"model.memory needs positions that only count distances, such as transformer_xl or rotary, "
            f"not {design.positions.kind}"
        )


# ---------------------------------------------------------------- the plan


def byte_count(path: Path) -> int:
    """Of the text, unpacked."""
    with open_bytes(path) as stream:
        return sum(len(part) for part in iter(lambda: stream.read(1 << 20), b""))


def proposal(size: int, device: torch.device, given: Mapping[str, Any]) -> dict[str, Any]:
    """A small text wants a small model and much dropout; up to 20 MB the sizes are nanoGPT's."""
    slow, little, asked = device.type == "cpu", size < 20_000_000, given.get("training", {})
    width, layers = ((128, 4) if slow else (384, 6)) if little else ((256, 4) if slow else (512, 8))
    training: dict[str, Any] = {
        "schedule": {"kind": "cosine", "warmup": 100, "floor": 0.1},
        "optimiser": {"kind": "adamw", "betas": (0.9, 0.99), "epsilon": 1e-8, "weight_decay": 0.1},
        **optimiser_for(1e-3, 4e-3 if slow else 2e-3 if little else None, asked),
        "objective": {"kind": "teacher_forcing", "label_smoothing": 0.0},
        "batch": {"tokens": 4096 if slow else 16_384, "shapes": shapes_for(device)},
    }
    if not {"steps", "epochs", "minutes"} & asked.keys():
        training["epochs"] = 10 if slow or not little else 40
    model = {
        "kind": "language_model",
        "width": width,
        "heads": width // 64,
        "layers": layers,
        "feed_forward": {"kind": "gelu"},
        "positions": {"kind": "rotary"},
        "residual": {"kind": "pre"},
        "scale_embedding": False,
        "dropout": 0.2 if little and not slow else 0.1,
    }
    return {"training": training, "model": model}


# ---------------------------------------------------------------- the task


class LanguageModelTask:
    """A language model's text, loss and measure."""

    measured: tuple[str, ...] = ()

    def __init__(self, setup: Setup, settings: LanguageModelling, design: LanguageModelDesign) -> None:
        self.setup, self.settings, self.design, self.files = setup, settings, design, setup.files
        self.way = settings.reading(self.files)
        state = setup.folder / "state"
        content = json.dumps([self.files.content, asdict(self.way), settings.held_out])
        self.tokenizers = kept(place_of(state / "text", content, asdict(setup.text)), self.learn)
        key = f"{content}-{self.tokenizers.fingerprint}"
        self.train, self.dev = (self.encoded(part, state / "corpus", f"{part}-{key}") for part in ("train", "dev"))
        if not self.train.facts.amounts.tokens:
            raise UsageError(f"{self.files.training()[0]}: no text to train on; every line is empty")

    @property
    def tokenizer(self) -> Tokenizer:
        return self.tokenizers.target

    @property
    def fingerprint(self) -> str:
        """Changes with the training text, the pieces, the seed and the order of segments."""
        order = f"-{self.settings.interleaved_batches}" if self.design.memory else ""
        return f"{self.train.facts.key}-{self.setup.seed}-{self.settings.segment}{order}"

    # ------------------------------------------------------------ text

    def learn(self) -> Tokenizers:
        one = self.setup.text.learn(line.text for line in self.way.joined(self.lines("train")))
        return Tokenizers(one, one)

    def lines(self, part: Part) -> Iterator[Line]:
        """Of the training text or of the validation text, which may be the end of the same files."""
        paths, dev = self.files.training(), self.files.validation()
        if dev or not self.settings.held_out:
            return self.way.lines(paths if part == "train" else dev)
        return self.way.first(paths, self.cut) if part == "train" else self.way.after(paths, self.cut)

    @cached_property
    def cut(self) -> int:
        return self.way.split(self.files.training(), self.settings.held_out)

    def encoded(self, part: Part, folder: Path, key: str) -> Tokens:
        found = open_tokens(folder, key)
        if found is not None:
            return found
        self.setup.notes.extend(store.anew(store.place_of(folder, key)))
        return build_tokens(folder, key, self.way, self.lines(part), self.tokenizer, len(self.tokenizer))

    # ------------------------------------------------------------ training

    def build(self) -> LanguageModel:
        try:
            return self.design.build(len(self.tokenizer))
        except ValueError as error:
            raise UsageError(f"model: {error}") from None

    @property
    def size(self) -> Size:
        return Size.of(self.train, self.settings.segment, self.setup.training.batch)

    def forward_pass(self, model: nn.Module) -> ForwardPass:
        assert isinstance(model, LanguageModel)
        settings, r_drop = self.settings, self.setup.training.r_drop
        noise = InputNoise(settings.word_dropout, settings.vocabulary_dropout, settings.memory_dropout)
        if not model.memory:
            return SegmentForward(model, noise, r_drop)
        return MemoryForward(model, noise, self.size.rows * self.in_order().turns, r_drop)

    def stream(self, rank: int, world: int) -> Stream:
        if self.design.memory:
            return self.in_order(rank, world)
        return Shuffled(self.train, self.size, self.setup.seed, rank, world)

    def in_order(self, rank: int = 0, world: int = 1) -> InOrder:
        return InOrder(self.train, self.size, self.setup.seed, rank, world, self.settings.interleaved_batches)

    # ------------------------------------------------------------ validation

    @torch.inference_mode()
    def validate(self, model: nn.Module, device: torch.device) -> Validation:
        assert isinstance(model, LanguageModel)
        if not self.dev.facts.amounts.tokens:
            return Validation({})
        found = self.perplexity(model)
        scores = {"loss": found.loss, "perplexity": found.of_tokens, "bits_per_character": found.bits_per_character}
        return Validation({name: round(value, 5) for name, value in scores.items()}, self.sample(model, device))

    def perplexity(self, model: LanguageModel) -> Perplexity:
        """Of the validation text: with memory where the model has one, else in segments by themselves."""
        documents, segment = list(self.dev.documents()), self.settings.segment
        read = remembered(model, documents, segment) if model.memory else strided(model, documents, segment, segment)
        return Perplexity(float(sum(one.sum() for one in read)), self.dev.facts.amounts)

    def sample(self, model: LanguageModel, device: torch.device) -> dict[str, str]:
        """How the model goes on after the first words of the validation text, and how the text does."""
        ids = next(self.dev.documents()).tolist()[: 2 * SHOWN]
        prompt, rest = ids[: len(ids) // 2], ids[len(ids) // 2 :]
        generator = Generator(model, self.tokenizer, self.settings.segment + model.memory, self.way.whole)
        output = generator.write(prompt, Manner(longest=SHOWN, temperature=0.8, top_p=0.9, seed=self.setup.seed))
        return {"source": generator.text(prompt), "reference": generator.text(rest), "output": output}

    # ------------------------------------------------------------ facts

    def where(self, indices: Any) -> str:
        places = [self.train.place(int(index)) for index in indices[:5]]
        named = [f"{self.files.training()[file]}:{line}" for file, line in places]
        return ", ".join(named) + (f" and {len(indices) - 5} more" if len(indices) > 5 else "")

    def save(self, folder: Path) -> None:
        self.tokenizers.save(folder)

    def facts(self) -> dict[str, Any]:
        train, dev = self.train.facts.amounts, self.dev.facts.amounts
        return {
            "text": f"{train.tokens:,} tokens, {train.words:,} words, {train.characters:,} characters",
            "validation text": f"{dev.tokens:,} tokens",
            "vocabulary": [len(self.tokenizer)],
        }

    def card(self, folder: Path, scores: Mapping[str, float]) -> CardFacts:
        dev = ", ".join(map(str, self.files.validation()))
        return CardFacts(
            name=folder.name,
            task="language modelling",
            languages=[self.files.language] if self.files.language else [],
            data=[
                DataFile("training", ", ".join(map(str, self.files.training())), self.train.facts.amounts.tokens),
                DataFile("validation", dev or "held out", self.dev.facts.amounts.tokens),
            ],
            sizes={"vocabulary": len(self.tokenizer)},
            scores=[Score(name, value, SIGNATURES.get(name, ""), "validation") for name, value in scores.items()],
            use=f'headway predict {folder} --prompt "..."',
        )
