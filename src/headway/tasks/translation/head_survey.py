"""All heads over a corpus: what they do, and what is lost without each of them (Michel et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from headway.data.padding import pad_rows
from headway.inspection.forward_pass import read
from headway.inspection.heads import average, describe_heads, reading_habits
from headway.inspection.trace_request import Head
from headway.model.hooks import ablate, twin
from headway.model.models import EncoderDecoder
from headway.tasks.translation.ablation_pairs import Pairs
from headway.tasks.translation.panels import KINDS

Progress = Callable[[int], None]
Measure = Callable[[EncoderDecoder], dict[str, float]]


@dataclass(frozen=True)
class Finding:
    """One head. Changes are what silencing it does: more loss or less BLEU mean that it matters."""

    head: Head
    entropy: float  # nats
    distance: float  # pieces
    label: str
    changes: dict[str, float]  # loss (nats a piece), and BLEU and chrF where they were measured

    def to_dict(self) -> dict[str, Any]:
        plain = {"entropy": self.entropy, "distance": self.distance, "label": self.label, "changes": self.changes}
        return asdict(self.head) | plain


@dataclass(frozen=True)
class Survey:
    """All heads, those that matter most first, and the figures of the whole model."""

    sentences: int
    whole: dict[str, float]
    findings: list[Finding]

    def to_dict(self) -> dict[str, Any]:
        heads = [one.to_dict() for one in self.findings]
        return {"version": 1, "kind": "heads", "sentences": self.sentences, "whole": self.whole, "heads": heads}


def measures(pairs: Pairs, decode: bool) -> Measure:
    """The loss is quick; BLEU and chrF need an output for every sentence."""
    if decode:
        return lambda model: {"loss": pairs.loss(model), **pairs.scores(model)}
    return lambda model: {"loss": pairs.loss(model)}


def survey(model: EncoderDecoder, pairs: Pairs, measure: Measure, progress: Progress = lambda _: None) -> Survey:
    """Watch every head, then silence one at a time. Progress counts silenced heads."""
    model = twin(model)
    watched = habits_of(model, pairs)
    whole = measure(model)
    findings = []
    for one in watched:
        head = Head(one["stack"], one["layer"], one["kind"], one["head"])
        with ablate(model, [(head.attention, head.head)]):
            without = measure(model)
        changes = {name: without[name] - value for name, value in whole.items()}
        findings.append(Finding(head, one["entropy"], one["distance"], one["label"], changes))
        progress(len(findings))
    return Survey(len(pairs), whole, sorted(findings, key=lambda one: -one.changes["loss"]))


def habits_of(model: EncoderDecoder, pairs: Pairs) -> list[dict[str, Any]]:
    """What each head does, over all sentences."""
    seen: dict[str, list] = {name: [] for name in KINDS}
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        reading = read(model, pad_rows([source], pairs.device), target[:-1])
        for name, kind in KINDS.items():
            seen[name].append(reading_habits(reading, pairs.tokenizers, *kind))
    return [head for name, kind in KINDS.items() for head in describe_heads(average(seen[name]), *kind)]
