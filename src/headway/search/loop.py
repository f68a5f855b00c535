"""The loop of every search: step the model, let the search choose, put finished sentences aside."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.model.inputs import SourceBatch
from headway.search.base import Hypothesis, Stepper, length_weight
from headway.search.limits import Limits
from headway.search.logits_processors import Shape, Written
from headway.text.vocabulary import BOS, EOS, PAD, UNK

NEVER = (PAD, UNK, BOS)  # the first pieces of every vocabulary, and never an output
LOOK_EVERY = 8  # steps between two looks at a GPU: each look waits for it
DROP_SHARE = 8  # finished sentences leave the batch when they are one in this many

Shaping = Callable[[Float[Tensor, "n v"]], Float[Tensor, "n v"]]
D = TypeVar("D", bound="Draft")


@dataclass
class Draft:
    """What has been written of each sentence: `w` rows each, in tensors whose shapes stay."""

    ids: Int[Tensor, "b w t"]
    token_scores: Float[Tensor, "b w t"]
    last: Int[Tensor, "b w"]  # what the model is given next
    done: Bool[Tensor, "b"]
    cap: Int[Tensor, "b"]  # steps each sentence gets
    sentence: Int[Tensor, "b"]  # its place in the batch as it came
    step: Int[Tensor, "1"]  # pieces written in every row
    weights: Float[Tensor, "t"]  # what a total of each length is multiplied by

    @classmethod
    def opening(cls, source: SourceBatch, limits: Limits, width: int, alpha: float, room: int | None = None) -> Draft:
        """Nothing written yet; room for the longest output, or for as many pieces as given."""
        cap = limits.caps(source)
        sentences, longest, device = len(source), room or int(cap.max()), source.device
        weights = [length_weight(length, alpha) for length in range(1, longest + 1)]
        return Draft(
            ids=torch.full((sentences, width, longest), PAD, device=device),
            token_scores=torch.zeros(sentences, width, longest, device=device),
            last=torch.full((sentences, width), BOS, device=device),
            done=torch.zeros(sentences, dtype=torch.bool, device=device),
            cap=cap,
            sentence=torch.arange(sentences, device=device),
            step=torch.zeros(1, dtype=torch.long, device=device),
            weights=torch.tensor(weights, device=device),
        )

    def select(self: D, sentences: Int[Tensor, "m"]) -> D:
        """Keep these sentences: all that is theirs, not what the batch shares."""
        theirs = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("step", "weights")}
        return replace(self, **{name: choose_sentences(value, sentences) for name, value in theirs.items()})

    def written(self, step: int) -> Written:
        beam = self.last.size(1)
        sentence, cap = self.sentence.repeat_interleave(beam), self.cap.repeat_interleave(beam)
        return Written(self.ids[:, :, :step].flatten(0, 1), sentence, cap)

    def continued(
        self, parents: Int[Tensor, "b c"], pieces: Int[Tensor, "b c"], scores: Float[Tensor, "b c"]
    ) -> tuple[Int[Tensor, "b c t"], Float[Tensor, "b c t"]]:
        """Copies of each sentence's rows with one more piece: the texts and the scores of their pieces."""
        rows = flat(parents, self.last.size(1))
        ids, token_scores = (
            x.flatten(0, 1).index_select(0, rows).unflatten(0, parents.shape) for x in (self.ids, self.token_scores)
        )
        ids.index_copy_(2, self.step, pieces[..., None])
        token_scores.index_copy_(2, self.step, scores[..., None])
        return ids, token_scores

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Every row up to its end or its cap, the best first."""
        ids, scores, caps = self.ids.tolist(), self.token_scores.tolist(), self.cap.tolist()
        weights = self.weights.tolist()
        return [
            sorted((line(i[:cap], s[:cap], weights) for i, s in zip(*rows, strict=True)), key=best_first)
            for *rows, cap in zip(ids, scores, caps, strict=True)
        ]


def choose_sentences(value: Any, sentences: Int[Tensor, "m"]) -> Any:
    """Of a tensor that begins with the sentences' axis, or of a dataclass of such tensors."""
    if isinstance(value, Tensor):
        return value.index_select(0, sentences)
    parts = ((f.name, getattr(value, f.name)) for f in fields(value))
    return replace(value, **{name: choose_sentences(part, sentences) for name, part in parts})


def line(ids: list[int], scores: list[float], weights: list[float]) -> Hypothesis:
    """An end that was impossible only marks the place where shapes left nothing to say."""
    end = ids.index(EOS) if EOS in ids else len(ids)
    finished = end < len(ids) and scores[end] > -math.inf
    scores = scores[: end + finished]
    total = sum(scores)
    return Hypothesis(ids[:end], total * weights[max(0, len(scores) - 1)], total, scores, finished)


def best_first(hypothesis: Hypothesis) -> tuple[bool, float]:
    """Sorts finished hypotheses before cut ones, and each kind by its score."""
    return not hypothesis.finished, -hypothesis.score


# Local to each sentence: the row that each of its rows continues; None if all stay in place.
Parents = Int[Tensor, "b w"] | None

# One step of a search, tensors in and out: nothing in it waits for a GPU.
Advance = Callable[[D, Float[Tensor, "n v"], Shaping], tuple[D, Parents]]


def write(
    model: Stepper, source: SourceBatch, draft: D, advance: Advance[D], shapes: Sequence[Shape]
) -> list[list[Hypothesis]]:
    """Step until every sentence is done."""
    rows = model.start(source)
    results: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    longest, on_cpu = draft.ids.size(-1), source.device.type == "cpu"
    for step in range(longest):
        beam = draft.last.size(1)
        scores = log_probabilities(model.step(draft.last.flatten(), rows))
        shaping = shaper(shapes, draft.written(step)) if shapes else forbid
        draft, parents = advance(draft, scores, shaping)
        if on_cpu or (step + 1) % LOOK_EVERY == 0 or step + 1 == longest:
            going = put_aside(draft, results)
            if going is not None and not len(going):
                break
            if going is not None:
                rows.keep(going, beam)
                draft, parents = draft.select(going), None if parents is None else parents.index_select(0, going)
        if parents is not None:
            rows.reorder(flat(parents, beam))
    return results


def put_aside(draft: Draft, results: list[list[Hypothesis]]) -> Int[Tensor, "m"] | None:
    """Hand over finished sentences and return the others; None while too few are finished to be worth a move."""
    finished, all_of_them = int(draft.done.sum()), len(draft.done)
    if finished == 0 or (finished < all_of_them and finished * DROP_SHARE < all_of_them):
        return None
    over = draft if finished == all_of_them else draft.select(draft.done.nonzero()[:, 0])
    for sentence, hypotheses in zip(over.sentence.tolist(), over.hypotheses(), strict=True):
        results[sentence] = hypotheses
    return (~draft.done).nonzero()[:, 0]


def flat(parents: Int[Tensor, "b w"], beam: int) -> Int[Tensor, "n"]:
    """Parents as rows of the whole batch, where each sentence had `beam` rows."""
    first = torch.arange(0, len(parents) * beam, beam, device=parents.device)
    return (parents + first[:, None]).flatten()


def log_probabilities(logits: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """On a CPU in place: there the time goes into touching memory, and log_softmax reads each row before it writes."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32 and logits.is_contiguous():
        return torch.log_softmax(logits, dim=-1, out=logits)
    return logits.log_softmax(dim=-1, dtype=torch.float32)


def forbid(scores: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """Special pieces never come out."""
    scores[:, : len(NEVER)] = -torch.inf
    return scores


def shaper(shapes: Sequence[Shape], written: Written) -> Shaping:
    def shaping(scores: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
        scores = forbid(scores)
        for shape in shapes:
            scores = shape(scores, written)
        return scores

    return shaping
