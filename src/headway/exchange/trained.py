"""A model taken out of its folder: design, weights and tokenisers, ready to be written in another format."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from headway import config
from headway.architecture import EncoderDecoderDesign, LanguageModelDesign
from headway.errors import UsageError
from headway.exchange.folding import Exportable
from headway.folder import CARD, check_tensors, read_model
from headway.models import EncoderDecoder, LanguageModel
from headway.run import Run
from headway.tasks.translation import Tokenizers
from headway.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Trained:
    """What an export needs to know of a model."""

    name: str
    design: Exportable
    tensors: dict[str, Tensor]
    source: Tokenizer
    target: Tokenizer
    languages: tuple[str, str] = ("", "")  # codes of source and target, where they are known
    card: str = ""
    samples: tuple[str, ...] = field(default=(), repr=False)  # sentences its run was validated on

    def build(self) -> EncoderDecoder | LanguageModel:
        """The model itself, ready to translate."""
        model = fresh(self.design, len(self.source), len(self.target))
        check_tensors({name: list(x.shape) for name, x in model.state_dict().items()}, self.tensors)
        model.load_state_dict(self.tensors)
        return model.eval()

    def pieces(self) -> tuple[list[str], list[str]]:
        """The names of all pieces, source and target."""
        source, target = ([side.piece(i) for i in range(len(side))] for side in (self.source, self.target))
        return source, target


def fresh(design: Exportable, source: int, target: int) -> EncoderDecoder | LanguageModel:
    try:
        return design.build(source, target) if isinstance(design, EncoderDecoderDesign) else design.build(target)
    except ValueError as error:
        raise UsageError(str(error)) from None


def expected_shapes(design: Exportable, source: int, target: int) -> dict[str, list[int]]:
    """What the tensors of such a model must look like; nothing is allocated."""
    with torch.device("meta"):
        return {name: list(x.shape) for name, x in fresh(design, source, target).state_dict().items()}


def read_trained(folder: Path) -> Trained:
    found = read_model(folder)
    try:
        table = tomllib.loads(found.config_text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{folder / 'config.toml'}: not valid TOML: {error}") from None
    run = config.from_dict(Run, table, str(folder / "config.toml"))
    if not isinstance(run.model, EncoderDecoderDesign | LanguageModelDesign):
        raise UsageError(
            f"{folder} holds a model of kind {run.model.kind}; translators and language models are exported"
        )
    tokenizers = Tokenizers.load(folder)
    card = folder / CARD
    return Trained(
        name=folder.resolve().name,
        design=run.model,
        tensors=found.tensors,
        source=tokenizers.source,
        target=tokenizers.target,
        languages=(run.data.source_language, run.data.target_language),
        card=card.read_text(encoding="utf-8", errors="replace") if card.is_file() else "",
    )
