"""One text and how well a language model foresaw it, piece by piece; where it looked back, and what it remembered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headway.inspection.single_stack import Single
from headway.inspection.tokens import edited, fitting, told_pieces, told_target
from headway.inspection.trace_request import LONGEST, TraceRequest
from headway.model.hooks import Seen, ablate, record, twin
from headway.model.losses import exact
from headway.model.models import LanguageModel
from headway.tasks.language_model.perplexity import absent, windows
from headway.tasks.language_model.predictor import OVERLAP, LanguagePredictor
from headway.text.vocabulary import BOS, EOS


class Part(NamedTuple):
    """A part of a text that is read at once."""

    start: int  # of what is read
    counted: int  # from here on it is scored; what stands before is context
    stop: int
    hidden: Float[Tensor, "t d"]  # of all that is read
    remembered: int  # pieces before `start` that the model still sees


@dataclass(frozen=True)
class Foresight:
    """Row t foresees piece t; column u is input u, 0 being the beginning."""

    logp: Float[Tensor, "t v"]
    weights: Float[Tensor, "l h t t"]

    def total(self, ids: list[int]) -> float:
        return float(self.logp[range(len(ids)), ids].sum())


def trace_foresight(predictor: LanguagePredictor, request: TraceRequest) -> dict[str, Any]:
    """Read a text and tell how likely each piece was."""
    model, tokenizer = twin(predictor.model), predictor.tokenizer
    stack = Single(model, "decoder", "stack")
    silenced = stack.silenced(request)
    plain = fitting([*predictor.generator.ids(request.q)[1:], EOS], LONGEST)
    ids = edited(plain, request.edit, tokenizer)
    with ablate(model, silenced):
        found = foresee(predictor, stack, model, ids)
    total = found.total(ids)
    return {
        "kind": predictor.kind,
        "model": stack.facts(request.model, len(tokenizer)),
        "request": asdict(request),
        "source": {"text": request.q, "pieces": told_pieces(ids, tokenizer)},
        "target": {
            "text": predictor.generator.text(ids[:-1]),
            "logp": total,
            "score": total / len(ids),
            "pieces": told_target(ids, found.logp, tokenizer, 0, request.top_k),
        },
        "memory": {"length": model.memory, "segment": predictor.segment},
        "baseline": baseline(predictor, stack, model, plain, total) if request.changes else None,
        **stack.panels(found.weights, [BOS, *ids[:-1]], tokenizer, request),
    }


def baseline(
    predictor: LanguagePredictor, stack: Single, model: LanguageModel, ids: list[int], now: float
) -> dict[str, Any]:
    """The text without the change. After an edit it is another text, and `logp_now` is that one's."""
    before = foresee(predictor, stack, model, ids).total(ids)
    return {"text": predictor.generator.text(ids[:-1]), "logp": before, "logp_now": now, "changed": []}


# ---------------------------------------------------------------- reading


@torch.inference_mode()
def foresee(predictor: LanguagePredictor, stack: Single, model: LanguageModel, ids: list[int]) -> Foresight:
    """As the text would be measured: with the model's memory, or in windows that overlap."""
    inputs = torch.tensor([BOS, *ids[:-1]], device=model.head.weight.device)
    read = remembering if model.memory else in_windows
    with record(model) as seen:
        parts = list(read(model, inputs, predictor.segment))
    hidden = torch.cat([part.hidden[part.counted - part.start :] for part in parts])
    return Foresight(log_probabilities(model, hidden), pieced(stack, seen, parts))


def in_windows(model: LanguageModel, inputs: Tensor, segment: int) -> Iterator[Part]:
    for window in windows([len(inputs)], segment, max(1, segment // OVERLAP)):
        hidden = model.hidden(inputs[None, window.start : window.stop])[0][0]
        yield Part(window.start, window.counted, window.stop, hidden, 0)


def remembering(model: LanguageModel, inputs: Tensor, segment: int) -> Iterator[Part]:
    memory = list[Tensor]()
    for number, some in enumerate(inputs.split(segment)):
        known, start = memory[0].size(1) if memory else 0, number * segment
        hidden, memory = model.hidden(some[None], memory)
        yield Part(start, start, start + len(some), hidden[0], known)


def log_probabilities(model: LanguageModel, hidden: Float[Tensor, "t d"]) -> Float[Tensor, "t v"]:
    """Special pieces that an imported model does not have cannot come."""
    scores, never = exact(model.head(hidden)), absent(model.head.weight)
    scores[:, : len(never)].masked_fill_(never, -torch.inf)
    return scores.log_softmax(dim=-1)


def pieced(stack: Single, seen: Seen, parts: list[Part]) -> Float[Tensor, "l h t t"]:
    """The weights of all parts as one table; what was out of sight weighs nothing."""
    calls = [seen.calls[name] for name in stack.layers]
    length = parts[-1].stop
    table = torch.zeros(len(calls), calls[0][0].size(1), length, length)
    for number, part in enumerate(parts):
        rows = torch.cat([layer[number] for layer in calls]).float().cpu()[:, :, part.counted - part.start :]
        table[:, :, part.counted : part.stop, part.start - part.remembered : part.stop] = rows
    return table
