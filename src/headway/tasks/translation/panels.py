"""The panels of a trace: each is a function of what the search and the model did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headway.inspection.attribution import attribution, occlusion
from headway.inspection.beam_trace import TracedSearch
from headway.inspection.figure import inside
from headway.inspection.forward_pass import Reading
from headway.inspection.heads import describe_heads, reading_habits
from headway.inspection.logit_lens import lens
from headway.inspection.trace_request import Check, Panel, TraceRequest
from headway.model.design import Design
from headway.model.models import EncoderDecoder
from headway.storage.byte_tables import pack
from headway.text.tokenizer import Tokenizers

KINDS = {"encoder": ("encoder", "self"), "decoder": ("decoder", "self"), "cross": ("decoder", "cross")}


@dataclass(frozen=True)
class PanelInput:
    """What the panels of one trace are made from."""

    model: EncoderDecoder  # a twin that nobody else uses, with heads silenced as asked
    design: Design
    tokenizers: Tokenizers
    request: TraceRequest
    search: TracedSearch
    reading: Reading
    check: Check  # called between steps


def attention(look: PanelInput) -> dict[str, Any]:
    return {name: pack(look.reading.attention(*kind)) for name, kind in KINDS.items()}


def heads(look: PanelInput) -> list[dict[str, Any]]:
    habits = {kind: reading_habits(look.reading, look.tokenizers, *kind) for kind in KINDS.values()}
    return [head for kind, found in habits.items() for head in describe_heads(found, *kind)]


def beam(look: PanelInput) -> dict[str, Any]:
    return look.search.to_dict(look.tokenizers.target)


def logit_lens(look: PanelInput) -> dict[str, Any]:
    return lens(look.model, look.reading, look.tokenizers.target)


def from_inside(look: PanelInput) -> dict[str, Any]:
    return inside(look.model, look.design, look.reading, look.tokenizers, look.request.position)


PANELS: dict[Panel, Callable[[PanelInput], Any]] = {
    "attention": attention,
    "heads": heads,
    "beam": beam,
    "lens": logit_lens,
    "inside": from_inside,
}
# Parts of one panel, since each takes much time.
CAUSES: dict[Panel, Callable[[EncoderDecoder, Reading, Check], dict[str, Any]]] = {
    "attribution": attribution,
    "occlusion": occlusion,
}


def panels(look: PanelInput) -> dict[str, Any]:
    """Return the panels that the request names."""
    wanted, shown = look.request.include, {}
    for name, panel in PANELS.items():
        if name in wanted:
            look.check()
            shown[name] = panel(look)
    causes = [cause(look.model, look.reading, look.check) for name, cause in CAUSES.items() if name in wanted]
    return shown | (
        {"attribution": {name: table for cause in causes for name, table in cause.items()}} if causes else {}
    )
