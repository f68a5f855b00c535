"""A model taken out of its folder: design, weights and tokenisers, ready to be written in another format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.data.corpus import Data
from headway.data.files import Files
from headway.errors import UsageError
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign
from headway.model.models import EncoderDecoder, LanguageModel
from headway.model.plain_design import Exportable
from headway.storage.checked_weights import filled
from headway.storage.folder import CARD, CONFIG, ModelFiles, read_model
from headway.storage.publication import newest
from headway.tasks.run import saved_run
from headway.text.tokenizer import Tokenizer, Tokenizers


@dataclass(frozen=True)
class Trained:
    """What an export needs to know of a model."""

    name: str
    design: Exportable
    tensors: dict[str, Tensor]  # under all their names, tied ones too
    source: Tokenizer
    target: Tokenizer
    languages: tuple[str, str] = ("", "")  # codes of source and target, where they are known
    card: str = ""
    config: str = ""  # the run's, as TOML
    facts: Mapping[str, Any] = field(default_factory=dict)  # what its folder says of it

    def build(self) -> EncoderDecoder | LanguageModel:
        """The model itself, ready to translate."""
        model = fresh(self.design, len(self.source), len(self.target))
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


def languages_of(data: Data | Files) -> tuple[str, str]:
    """Codes of what is read and what is written; a language model reads what it writes."""
    return (data.source_language, data.target_language) if isinstance(data, Data) else (data.language, data.language)


def read_place(place: Path) -> tuple[ModelFiles, Tokenizers, str]:
    card = place / CARD
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    return read_model(place), Tokenizers.load(place), text


def read_trained(folder: Path) -> Trained:
    found, tokenizers, card = newest(folder, read_place)
    run = saved_run(found.config_text, str(folder / CONFIG))
    if not isinstance(run.model, EncoderDecoderDesign | LanguageModelDesign):
        raise UsageError(f"{folder}: a model of kind {run.model.kind}; translators and language models are exported")
    model = filled(partial(fresh, run.model, len(tokenizers.source), len(tokenizers.target)), found.tensors)
    return Trained(
        name=folder.resolve().name,
        design=run.model,
        tensors={name: tensor.detach() for name, tensor in model.state_dict().items()},
        source=tokenizers.source,
        target=tokenizers.target,
        languages=languages_of(run.data),
        card=card,
        config=found.config_text,
        facts=found.facts,
    )
