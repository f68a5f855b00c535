"""What a server tells of its models: their task, their languages, their size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headway.data.languages import languages_of
from headway.inspection.single_stack import Single
from headway.serve.channel import Message
from headway.serve.models import UNKNOWN_SOURCE, UNKNOWN_TARGET
from headway.tasks.classification.classifier import Classifier
from headway.tasks.language_model.predictor import LanguagePredictor
from headway.tasks.predictors import TranslatorPredictor
from headway.tasks.tagging.tagger import Tagger
from headway.tasks.translation.translator import Translator
from headway.text.tokenizer import Tokenizer


def facts(name: str, folder: Path, model: Any) -> Message:
    return {"id": name, "folder": str(folder), **TELLERS[type(model)](model, folder)}


def translator_facts(model: TranslatorPredictor, folder: Path) -> Message:
    translator = model.translator
    design: Any = translator.run.model
    return {
        "task": "translation",
        "pairs": [[source, target, to] for source, target, to in directions(translator, folder)],
        "parameters": sum(parameter.numel() for parameter in translator.model.parameters()),
        "encoder_layers": design.encoder_layers,
        "decoder_layers": design.decoder_layers,
        "heads": design.heads,
        "width": design.width,
        "vocabulary": [len(translator.tokenizers.source), len(translator.tokenizers.target)],
        "engine": translator.engine.name,
        "precision": translator.engine.precision,
    }


def tagger_facts(model: Tagger, _: Path) -> Message:
    stack = Single(model.model, "encoder", "encoder.stack")
    return {"task": "tagging", "labels": list(model.labelling.labels), **stack_facts(stack, model.reader.pieces.text)}


def classifier_facts(model: Classifier, _: Path) -> Message:
    stack = Single(model.model, "encoder", "encoder.stack")
    return {"task": "classification", "labels": list(model.classes.labels), **stack_facts(stack, model.tokenizer)}


def language_facts(model: LanguagePredictor, _: Path) -> Message:
    return {"task": "language_model", **stack_facts(Single(model.model, "decoder", "stack"), model.tokenizer)}


def stack_facts(stack: Single, tokenizer: Tokenizer) -> Message:
    """Of a model that does not translate: it has no languages, and runs as it is."""
    told = stack.facts("", len(tokenizer))
    same = {name: told[name] for name in ("parameters", f"{stack.name}_layers", "heads", "width", "vocabulary")}
    return {"pairs": [], **same, "engine": "torch", "precision": "fp32"}


TELLERS: dict[type, Callable[[Any, Path], Message]] = {  # what a model of each kind is
    TranslatorPredictor: translator_facts,
    Tagger: tagger_facts,
    Classifier: classifier_facts,
    LanguagePredictor: language_facts,
}


def directions(translator: Translator, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Source, target and the tag that asks for it. A model with tags goes into every language it has one for."""
    found = languages_of(translator.run.pairs, folder)
    source, target = found[0] or UNKNOWN_SOURCE, found[1] or UNKNOWN_TARGET
    tags = sorted(translator.tokenizers.source.tags)
    if not tags:
        yield source, target, ""
    for tag in tags:
        sources = {corpus.source_language for corpus in translator.run.pairs.corpora if corpus.tag == tag} - {""}
        yield from ((one, tag, tag) for one in sorted(sources) or [source])
