"""The trace of a text in a language model: the probability of each piece, attention, and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headway.inspection.single_stack import SingleStack
from headway.inspection.tokens import check_length, describe_pieces, describe_target, edit_pieces
from headway.inspection.trace_request import LONGEST, TraceRequest
from headway.model.hooks import Seen, ablate, record, twin
from headway.model.losses import exact
from headway.model.models import LanguageModel
from headway.tasks.language_model.perplexity import absent, windows
from headway.tasks.language_model.predictor import OVERLAP, LanguagePredictor
from headway.text.vocabulary import BOS, EOS


class TracedSegment(NamedTuple):
    """A part of a text that is read at once."""

    start: int  # of what is read
    counted: int  # from here on it is scored; what stands before is context
    stop: int
    hidden: Float[Tensor, "t d"]  # of all that is read
    remembered: int  # pieces before `start` that the model still sees


@dataclass(frozen=True)
class TracedText:
    """Row t predicts piece t; column u is input u, 0 being the beginning."""

    logp: Float[Tensor, "t v"]
    weights: Float[Tensor, "l h t t"]

    def total(self, ids: list[int]) -> float:
        return float(self.logp[range(len(ids)), ids].sum())


def trace_language_model(predictor: LanguagePredictor, request: TraceRequest) -> dict[str, Any]:
    """Read a text and return its trace: how likely each piece was."""
    model, tokenizer = twin(predictor.model), predictor.tokenizer
    stack = SingleStack(model, "decoder", "stack")
    silenced = stack.silenced(request)
    plain = check_length([*predictor.generator.ids(request.q)[1:], EOS], LONGEST)
    ids = edit_pieces(plain, request.edit, tokenizer)
    with ablate(model, silenced):
        found = score_pieces(predictor, stack, model, ids)
    total = found.total(ids)
    return {
        "kind": predictor.kind,
        "model": stack.facts(request.model, len(tokenizer)),
        "request": asdict(request),
        "source": {"text": request.q, "pieces": describe_pieces(ids, tokenizer)},
        "target": {
            "text": predictor.generator.text(ids[:-1]),
            "logp": total,
            "score": total / len(ids),
            "pieces": describe_target(ids, found.logp, tokenizer, 0, request.top_k),
        },
        "memory": {"length": model.memory, "segment": predictor.segment},
        "baseline": baseline(predictor, stack, model, plain, total) if request.changes else None,
        **stack.panels(found.weights, [BOS, *ids[:-1]], tokenizer, request),
    }


def baseline(
    predictor: LanguagePredictor, stack: SingleStack, model: LanguageModel, ids: list[int], now: float
) -> dict[str, Any]:
    """Return the text without the change. After an edit, `logp_now` is the log-probability of the new text."""
    before = score_pieces(predictor, stack, model, ids).total(ids)
    return {"text": predictor.generator.text(ids[:-1]), "logp": before, "logp_now": now, "changed": []}


# ---------------------------------------------------------------- reading


@torch.inference_mode()
def score_pieces(predictor: LanguagePredictor, stack: SingleStack, model: LanguageModel, ids: list[int]) -> TracedText:
    """Score a text as perplexity does: with the model's memory, or in windows that overlap."""
    inputs = torch.tensor([BOS, *ids[:-1]], device=model.head.weight.device)
    read = read_with_memory if model.memory else read_in_windows
    with record(model) as seen:
        parts = list(read(model, inputs, predictor.segment))
    hidden = torch.cat([part.hidden[part.counted - part.start :] for part in parts])
    return TracedText(log_probabilities(model, hidden), join_weights(stack, seen, parts))


def read_in_windows(model: LanguageModel, inputs: Tensor, segment: int) -> Iterator[TracedSegment]:
    for window in windows([len(inputs)], segment, max(1, segment // OVERLAP)):
        hidden = model.hidden(inputs[None, window.start : window.stop])[0][0]
        yield TracedSegment(window.start, window.counted, window.stop, hidden, 0)


def read_with_memory(model: LanguageModel, inputs: Tensor, segment: int) -> Iterator[TracedSegment]:
    memory = list[Tensor]()
    for number, some in enumerate(inputs.split(segment)):
        known, start = memory[0].size(1) if memory else 0, number * segment
        hidden, memory = model.hidden(some[None], memory)
        yield TracedSegment(start, start, start + len(some), hidden[0], known)


def log_probabilities(model: LanguageModel, hidden: Float[Tensor, "t d"]) -> Float[Tensor, "t v"]:
    """Return log-probabilities; special pieces that an imported model does not have get none."""
    scores, never = exact(model.head(hidden)), absent(model.head.weight)
    scores[:, : len(never)].masked_fill_(never, -torch.inf)
    return scores.log_softmax(dim=-1)


def join_weights(stack: SingleStack, seen: Seen, parts: list[TracedSegment]) -> Float[Tensor, "l h t t"]:
    """Return the weights of all segments as one table; what was out of sight weighs nothing."""
    calls = [seen.calls[name] for name in stack.layers]
    length = parts[-1].stop
    table = torch.zeros(len(calls), calls[0][0].size(1), length, length)
    for number, part in enumerate(parts):
        rows = torch.cat([layer[number] for layer in calls]).float().cpu()[:, :, part.counted - part.start :]
        table[:, :, part.counted : part.stop, part.start - part.remembered : part.stop] = rows
    return table
