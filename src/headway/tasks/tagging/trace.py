"""One sentence and its labels: how likely each was for each word, and where the encoder looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headway.errors import UsageError
from headway.inspection.single_stack import SingleStack
from headway.inspection.tokens import check_length, slots
from headway.inspection.trace_request import LONGEST, Edit, TraceRequest
from headway.model.hooks import ablate, record, twin
from headway.tasks.tagging.tagger import Tagged, Tagger
from headway.tasks.tagging.words import Stretch, WordReader
from headway.text.vocabulary import UNK


@dataclass(frozen=True)
class TracedTagging:
    """A sentence with its labels, their probabilities and the attention weights."""

    tagged: Tagged
    chances: Float[Tensor, "w v"]  # of every label of every word
    weights: Float[Tensor, "l h q k"]  # of all heads

    @property
    def text(self) -> str:
        """Return one line: the spans, or every word with its label."""
        found = self.tagged.to_dict()
        if "spans" not in found:
            return " ".join(f"{word}/{label}" for word, label in zip(found["words"], found["labels"], strict=True))
        return ", ".join(f"{span['text']} ({span['kind'] or 'span'})" for span in found["spans"])


def trace_tagging(tagger: Tagger, request: TraceRequest) -> dict[str, Any]:
    """Label a sentence and return its trace."""
    stack = SingleStack(twin(tagger.model), "encoder", "encoder.stack")
    silenced = stack.silenced(request)
    plain = stretch_of(request.q, tagger)
    stretch = edit_stretch(plain, request.edit, tagger.reader)
    with ablate(stack.model, silenced):
        found = judge(stack, tagger, stretch)
    tokenizer = tagger.reader.pieces.text
    return {
        "kind": tagger.kind,
        "model": stack.facts(request.model, len(tokenizer)) | {"labels": len(tagger.labelling.labels)},
        "request": asdict(request),
        "source": {"text": request.q, "pieces": describe_pieces(stretch, tagger.reader)},
        "target": {"text": found.text, "logp": None, "score": None},
        "words": describe_words(found, stretch, request.top_k),
        "spans": found.tagged.to_dict().get("spans"),
        "baseline": baseline(judge(stack, tagger, plain), found) if request.changes else None,
        **stack.panels(found.weights, stretch.pieces, tokenizer, request),
    }


def stretch_of(text: str, tagger: Tagger) -> Stretch:
    found = tagger.reader.stretches([tagger.split(text)])
    pieces = check_length([piece for one in found for piece in one.pieces], LONGEST)
    if len(found) != 1:
        raise UsageError(f"the sentence has {len(pieces)} pieces; the model reads {tagger.reader.longest} at once")
    return found[0]


def edit_stretch(stretch: Stretch, edits: Sequence[Edit], reader: WordReader) -> Stretch:
    """Return the words with pieces replaced or dropped. A word without pieces becomes unknown; letters stay."""
    found = slots(stretch.pieces, edits, reader.pieces.text, range(len(stretch.pieces)))
    pieces, first = list[int](), list[int]()
    for start, end in bounds(stretch, reader):
        pieces += reader.gap if pieces else []
        first.append(len(pieces))
        pieces += [piece for slot in found[start:end] for piece in slot] or [UNK]
    return stretch._replace(pieces=check_length(pieces, min(LONGEST, reader.longest)), first=first)


def bounds(stretch: Stretch, reader: WordReader) -> list[tuple[int, int]]:
    """Return where the pieces of each word begin and end."""
    ends = [*(first - len(reader.gap) for first in stretch.first[1:]), len(stretch.pieces)]
    return list(zip(stretch.first, ends, strict=True))


@torch.inference_mode()
def judge(stack: SingleStack, tagger: Tagger, stretch: Stretch) -> TracedTagging:
    """Label one sentence as the tagger does, and record the attention weights."""
    pieces, first, letters = tagger.reader.tensors([stretch], tagger.device)
    with record(stack.model) as seen:
        scores = stack.model(pieces, first, letters)
    head, real = tagger.model.head, first >= 0
    best = head.decode(scores, real, tagger.chain)
    chances = head.probabilities(scores, real, tagger.chain)
    sure = chances.gather(-1, best[..., None])[0, :, 0].tolist()
    labels = tagger.labelling.scheme.repair([tagger.labelling.labels[number] for number in best[0].tolist()])
    found = Tagged(stretch.words, tuple(labels), tuple(round(one, 5) for one in sure), tagger.labelling)
    return TracedTagging(found, chances[0], stack.weights(seen))


# ---------------------------------------------------------------- as plain data


def describe_pieces(stretch: Stretch, reader: WordReader) -> list[dict[str, Any]]:
    """Return each piece with the number of its word; spaces between characters belong to none (-1)."""
    numbers = {place: word for word, (start, end) in enumerate(bounds(stretch, reader)) for place in range(start, end)}
    piece = reader.pieces.text.piece
    return [{"id": i, "text": piece(i), "word": numbers.get(place, -1)} for place, i in enumerate(stretch.pieces)]


def describe_words(found: TracedTagging, stretch: Stretch, top_k: int) -> list[dict[str, Any]]:
    """Return each word, the place of its first piece, its label, and the likeliest labels."""
    names = found.tagged.labelling.labels
    best, places = found.chances.topk(min(top_k, len(names)), dim=-1)
    rows = zip(stretch.words, stretch.first, found.tagged.labels, found.tagged.probabilities, strict=True)
    return [
        {"text": text, "first": first, "label": label, "p": sure}
        | {"top": [{"label": names[i], "p": p} for i, p in zip(ids, chances, strict=True)]}
        for (text, first, label, sure), ids, chances in zip(rows, places.tolist(), best.tolist(), strict=True)
    ]


def baseline(before: TracedTagging, now: TracedTagging) -> dict[str, Any]:
    """Return the labels without the change."""
    pairs = zip(before.tagged.labels, now.tagged.labels, strict=True)
    return {
        "text": before.text,
        "logp": None,
        "logp_now": None,
        "labels": list(before.tagged.labels),
        "changed": [word for word, (old, new) in enumerate(pairs) if old != new],
    }
