"""trace(model, request): all that can be seen of one text's way through a model of any task, as plain data for JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headway.errors import UsageError
from headway.inspection.trace_request import VERSION, Check, TraceRequest, go_on
from headway.tasks.classification.classifier import Classifier
from headway.tasks.classification.trace import trace_classification
from headway.tasks.language_model.predictor import LanguagePredictor
from headway.tasks.language_model.trace import trace_foresight
from headway.tasks.predictors import TranslatorPredictor
from headway.tasks.tagging.tagger import Tagger
from headway.tasks.tagging.trace import trace_tagging
from headway.tasks.translation.trace import trace_translation
from headway.tasks.translation.translator import Translator

# What looks into a model of each kind.
TRACERS: dict[type, Callable[[Any, TraceRequest, Check], dict[str, Any]]] = {
    Translator: trace_translation,
    TranslatorPredictor: lambda one, request, check: trace_translation(one.translator, request, check),
    Tagger: lambda one, request, _: trace_tagging(one, request),
    Classifier: lambda one, request, _: trace_classification(one, request),
    LanguagePredictor: lambda one, request, _: trace_foresight(one, request),
}


def trace(model: Any, request: TraceRequest, check: Check = go_on) -> dict[str, Any]:
    """What the model makes of a text, and how. Safe beside other threads that use the model.

    `check` is called between the steps of what takes long; what it raises ends the trace.
    """
    began = time.perf_counter()
    tracer = next((TRACERS[kind] for kind in type(model).__mro__ if kind in TRACERS), None)
    if tracer is None:
        raise UsageError(f"a {type(model).__name__} cannot be looked into; give a model that headway opened")
    found = {"version": VERSION, **tracer(model, request, check)}
    return found | {"milliseconds": (time.perf_counter() - began) * 1000}
