"""Everything about one translation, as plain data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from difflib import SequenceMatcher
from typing import Any

from headway.data.padding import pad_rows
from headway.errors import UsageError
from headway.inspection.beam_trace import Checked, Watched
from headway.inspection.forward_pass import read
from headway.inspection.panels import Look, panels
from headway.inspection.tokens import check_prefix, edited, source_ids, told_pieces, told_target
from headway.inspection.trace_request import LONGEST, Check, TraceRequest, go_on
from headway.model.hooks import ablate, twin
from headway.model.models import EncoderDecoder
from headway.search import Beam, Hypothesis
from headway.search.base import length_weight
from headway.search.logits_processors import Prefix
from headway.tasks.translation.facts import design_of, facts
from headway.tasks.translation.translator import Manner, Translator


def trace_translation(translator: Translator, request: TraceRequest, check: Check = go_on) -> dict[str, Any]:
    """Translate a sentence and tell all about it."""
    longest = min(LONGEST, design_of(translator).longest)
    request = replace(request, alpha=Manner().alpha if request.alpha is None else request.alpha)
    check_prefix(request.prefix, translator.tokenizers.target)
    ids = source_ids(request.q, translator.tokenizers.source, longest, request.target)
    changed = edited(ids, request.edit, translator.tokenizers.source, longest)
    model = twin(translator.model)
    with ablate(model, request.silenced):
        look, found = search(model, translator, request, changed, check)
        shown = panels(look)
    return {
        "kind": "translation",
        "model": facts(translator, request.model),
        "request": asdict(request),
        "source": {"text": request.q, "pieces": told_pieces(changed, translator.tokenizers.source)},
        **outputs(look, found),
        "baseline": baseline(model, translator, look, ids) if request.changes else None,
        **shown,
    }


def search(
    model: EncoderDecoder, translator: Translator, request: TraceRequest, ids: list[int], check: Check
) -> tuple[Look, list[Hypothesis]]:
    """Translate, then read the output that was chosen."""
    source = pad_rows([ids], translator.device)
    watched = watching(model, translator, request, check, request.prefix)
    found = watched(source, cross="beam" in request.include)
    if request.hypothesis >= len(found):
        raise UsageError(f"hypothesis is {request.hypothesis}; the search found {len(found)}, counted from 0")
    chosen = found[request.hypothesis]
    reading = read(model, source, chosen.ids, chosen.finished)
    if request.position >= reading.target.size(1):
        raise UsageError(f"position is {request.position}; the output has pieces 0 to {reading.target.size(1) - 1}")
    return Look(model, design_of(translator), translator.tokenizers, request, watched, reading, check), found


def watching(
    model: EncoderDecoder, translator: Translator, request: TraceRequest, check: Check, prefix: tuple[int, ...] = ()
) -> Watched:
    """A search under the task's own rules; the output must fit what can be shown."""
    limits, longest = translator.task.limits, min(LONGEST, model.transformer.positions.longest or LONGEST)
    limits = replace(limits, extra=limits.extra + len(prefix), longest=min(limits.longest, longest))
    beam = Beam(size=request.beam_size, alpha=request.alpha or 0.0, n_best=request.beam_size, limits=limits)
    rules = translator.task.output.shapes([request.q], translator.tokenizers.target)
    return Watched(model, beam, [*rules, *([Prefix([prefix])] if prefix else []), Checked(check)])


def outputs(look: Look, found: list[Hypothesis]) -> dict[str, Any]:
    text, chosen = look.tokenizers.target.decode, found[look.request.hypothesis]
    total = float(look.reading.chosen.sum())
    weight = length_weight(look.reading.target.size(1), look.request.alpha or 0.0)
    ids, forced = look.reading.target[0].tolist(), len(look.request.prefix)
    pieces = told_target(ids, look.reading.logp, look.tokenizers.target, forced, look.request.top_k)
    return {
        "target": {"text": text(chosen.ids), "logp": total, "score": total * weight, "pieces": pieces},
        "alternatives": [
            {"text": text(one.ids), "logp": one.total, "score": one.score, "ids": one.ids} for one in found
        ],
    }


# ---------------------------------------------------------------- what it would be without the change


def baseline(model: EncoderDecoder, translator: Translator, look: Look, ids: list[int]) -> dict[str, Any]:
    """The translation without the change, and what the changed model thinks of it."""
    request = look.request
    plain = watching(model, translator, request, look.check)(pad_rows([ids], translator.device))[0]
    with ablate(model, request.silenced):
        now = read(model, look.reading.source, plain.ids, plain.finished)
    return {
        "text": translator.tokenizers.target.decode(plain.ids),
        "logp": plain.total,
        "ids": plain.ids,
        "changed": differing(now.target[0].tolist(), look.reading.target[0].tolist()),
        "logp_now": float(now.chosen.sum()),
    }


def differing(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Places in `after` that are new, though what follows may only have moved."""
    edits = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [place for kind, _, _, first, end in edits if kind != "equal" for place in range(first, end)]
