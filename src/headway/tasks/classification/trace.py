"""One text and its classes: how likely each is, which pieces were pooled, and what each piece is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headway.data.padding import pad_rows
from headway.errors import UsageError
from headway.inspection.single_stack import SingleStack
from headway.inspection.tokens import check_length, describe_pieces, slots
from headway.inspection.trace_request import LONGEST, TraceRequest
from headway.model.hooks import ablate, record, twin
from headway.tasks.classification.classifier import Classified, Classifier
from headway.text.vocabulary import BOS

OCCLUDED = 5  # of the likeliest classes, what each piece is worth
ROWS = 32  # texts read at once when pieces are left out


@dataclass(frozen=True)
class TracedClassification:
    """A text with its classes, what each piece counts, and the attention weights."""

    classified: Classified
    chances: Float[Tensor, "v"]
    pooling: Float[Tensor, "t"]  # what each piece counts
    weights: Float[Tensor, "l h q k"]  # of all heads

    @property
    def order(self) -> list[int]:
        """Return the numbers of the classes, the likeliest first."""
        return self.chances.argsort(descending=True, stable=True).tolist()

    def logp(self, number: int) -> float:
        return float(self.chances[number].clamp(min=1e-38).log())


@dataclass(frozen=True)
class TracedClassifier:
    """A classifier whose model can be changed for one trace."""

    stack: SingleStack
    classifier: Classifier

    @torch.inference_mode()
    def chances(self, rows: Sequence[Sequence[int]]) -> Float[Tensor, "n v"]:
        given = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
        scores = [self.stack.model(pad_rows(some, self.classifier.device)).float().cpu() for some in given]
        return self.classifier.classes.decision.chances(torch.cat(scores))

    @torch.inference_mode()
    def judge(self, text: str, ids: list[int]) -> TracedClassification:
        with record(self.stack.model) as seen:
            chances = self.chances([ids])[0]
        decision, model = self.classifier.classes.decision, self.classifier.model
        chosen = decision.choose(chances[None].numpy(), self.classifier.threshold)[0]
        pieces = torch.tensor([ids], device=self.classifier.device)
        pooling = model.pooling.weights(self.stack.model.get_submodule("encoder")(pieces), pieces > 0)[0]
        made = self.classifier.build_prediction(text, chances.numpy(), chosen)
        return TracedClassification(made, chances, pooling.float().cpu(), self.stack.weights(seen))

    def occlusion(self, ids: list[int], found: TracedClassification) -> dict[str, Any]:
        """Return how much less likely a class is without each piece, in nats; the class token is never left out."""
        whole = found.chances.clamp(min=1e-38).log()
        without = self.chances([[*ids[:place], *ids[place + 1 :]] for place in range(1, len(ids))])
        rows = found.order[:OCCLUDED]
        lost = (whole - without.clamp(min=1e-38).log()).T[rows]
        table = torch.cat([torch.zeros(len(rows), 1), lost], dim=1)
        labels = [self.classifier.classes.labels[row] for row in rows]
        values = [round(value, 6) for value in table.flatten().tolist()]
        return {"labels": labels, "shape": list(table.shape), "data": values}


def trace_classification(classifier: Classifier, request: TraceRequest) -> dict[str, Any]:
    """Classify a text and return its trace."""
    stack = SingleStack(twin(classifier.model), "encoder", "encoder.stack")
    silenced, looked = stack.silenced(request), TracedClassifier(stack, classifier)
    plain = ids_of(request.q, classifier)
    ids = edit_pieces(plain, request, classifier)
    with ablate(stack.model, silenced):
        found = looked.judge(request.q, ids)
        occlusion = {"occlusion": looked.occlusion(ids, found)} if wants_occlusion(request, ids) else {}
    return {
        "kind": classifier.kind,
        "model": stack.facts(request.model, len(classifier.tokenizer)) | {"labels": len(classifier.classes.labels)},
        "request": asdict(request),
        "source": {"text": request.q, "pieces": describe_pieces(ids, classifier.tokenizer)},
        "target": {"text": ", ".join(found.classified.labels), "logp": found.logp(found.order[0]), "score": None},
        "classes": describe_classes(found, classifier.classes.labels),
        "pooling": [round(weight, 6) for weight in found.pooling.tolist()],
        "baseline": baseline(looked.judge(request.q, plain), found) if request.changes else None,
        **occlusion,
        **stack.panels(found.weights, ids, classifier.tokenizer, request),
    }


def ids_of(text: str, classifier: Classifier) -> list[int]:
    """Return the ids of the whole text; refuse one that the model would cut."""
    return check_length([BOS, *classifier.tokenizer.encode(text)], min(LONGEST, classifier.longest))


def edit_pieces(ids: list[int], request: TraceRequest, classifier: Classifier) -> list[int]:
    """Return the ids with pieces replaced or dropped; the class token stays."""
    found = slots(ids, request.edit, classifier.tokenizer, range(1, len(ids)))
    changed = [piece for slot in found for piece in slot]
    if request.edit and len(changed) == 1:
        raise UsageError("edit: every piece was dropped; leave at least one")
    return check_length(changed, min(LONGEST, classifier.longest))


def wants_occlusion(request: TraceRequest, ids: list[int]) -> bool:
    return "occlusion" in request.include and len(ids) > 1


def describe_classes(found: TracedClassification, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return the classes, the likeliest first; `chosen` are those that the model answers with."""
    chosen, chances = set(found.classified.labels), found.chances.tolist()
    return [{"label": labels[i], "p": chances[i], "chosen": labels[i] in chosen} for i in found.order]


def baseline(before: TracedClassification, now: TracedClassification) -> dict[str, Any]:
    """Return the answer without the change, and its log-probability with the change."""
    first = before.order[0]
    return {
        "text": ", ".join(before.classified.labels),
        "logp": before.logp(first),
        "logp_now": now.logp(first),
        "changed": [],
    }
