"""Facts of a translation model: its languages, its sizes and its training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.data.languages import languages_of
from headway.errors import UsageError
from headway.inspection.anatomy import size_of
from headway.model.design import EncoderDecoderDesign
from headway.training.settings import Training

if TYPE_CHECKING:  # its facts are told here
    from headway.tasks.translation.translator import Translator

UNKNOWN_LANGUAGES = "src", "tgt"  # of a folder that does not say its languages


def facts(translator: Translator, name: str) -> dict[str, Any]:
    """Return what a trace says of its model."""
    design = design_of(translator)
    block = translator.model.encoder.layers[0]
    return {
        "name": name,
        "source": translator.source_language,
        "target": translator.target_language,
        "encoder_layers": design.encoder_layers,
        "decoder_layers": design.decoder_layers,
        "heads": design.heads,
        "width": design.width,
        "inner": block.get_submodule("feed_forward.down").get_parameter("weight").size(1),
        "vocabulary": [len(translator.tokenizers.source), len(translator.tokenizers.target)],
        "parameters": size_of(translator.model),
        "position": design.positions.kind,
        "norm": design.norm.kind,
        "placement": design.residual.kind,
        **training_facts(translator.run.training, design.width),
    }


def design_of(translator: Translator) -> EncoderDecoderDesign:
    design = translator.run.model
    if not isinstance(design, EncoderDecoderDesign):
        raise UsageError(f"a model of the kind {design.kind}; only models that translate can be looked into")
    return design


def training_facts(training: Training, width: int) -> dict[str, Any]:
    """The curve of the learning rate; nothing where the model was not trained here."""
    steps = training.steps
    if steps is None:
        return {"steps": None, "warmup": None, "peak_rate": None}
    schedule = training.schedule
    peak = training.learning_rate * schedule.factor(max(1, schedule.warmup), steps, width)
    return {"steps": steps, "warmup": schedule.warmup, "peak_rate": peak}


# ---------------------------------------------------------------- for a server


def server_facts(translator: Translator, folder: Path) -> dict[str, Any]:
    """Return what a server says of a translation model. Each of its `pairs` is a source, a target and a tag."""
    design = design_of(translator)
    return {
        "task": translator.kind,
        "pairs": [[source, target, to] for source, target, to in directions(translator, folder)],
        "parameters": size_of(translator.model),
        "encoder_layers": design.encoder_layers,
        "decoder_layers": design.decoder_layers,
        "heads": design.heads,
        "width": design.width,
        "vocabulary": [len(translator.tokenizers.source), len(translator.tokenizers.target)],
        "engine": translator.engine.name,
        "precision": translator.engine.precision,
        "reason": translator.chosen.reason,
    }


def directions(translator: Translator, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Source, target and the tag that asks for it. A model with tags goes into every language it has one for."""
    found = languages_of(translator.run.pairs, folder)
    source, target = (one or unknown for one, unknown in zip(found, UNKNOWN_LANGUAGES, strict=True))
    tags = sorted(translator.tokenizers.source.tags)
    if not tags:
        yield source, target, ""
    for tag in tags:
        sources = {corpus.source_language for corpus in translator.run.pairs.corpora if corpus.tag == tag} - {""}
        yield from ((one, tag, tag) for one in sorted(sources) or [source])
