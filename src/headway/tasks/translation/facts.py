"""What a model is, in a few facts."""

from __future__ import annotations

from typing import Any

from headway.errors import UsageError
from headway.inspection.anatomy import size_of
from headway.model.design import EncoderDecoderDesign
from headway.tasks.translation.translator import Translator
from headway.training.settings import Training


def facts(translator: Translator, name: str) -> dict[str, Any]:
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
