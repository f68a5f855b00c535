"""trace(model, request): all that can be seen of one text's way through a model of any task, as plain data for JSON."""

from __future__ import annotations

import time
from typing import Any

from headway.inspection.trace_request import VERSION, Check, TraceRequest, go_on
from headway.tasks.base import Predictor


def trace(model: Predictor, request: TraceRequest, check: Check = go_on) -> dict[str, Any]:
    """Return what the model predicts for a text, and how. Safe beside other threads that use the model.

    `check` is called between the steps of what takes long; what it raises ends the trace.
    """
    began = time.perf_counter()
    found = {"version": VERSION, **model.trace(request, check)}
    return found | {"milliseconds": (time.perf_counter() - began) * 1000}
