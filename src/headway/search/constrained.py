"""Words that must come out: beam search with a place for every stage of saying them.

Dynamic beam allocation (Post and Vilar 2018, with the vectorised allotment of Hu et al. 2019): candidates are sorted
into banks by how many pieces of their phrases they have said, and the beam takes the best of every bank in turn, the
fullest bank first. As the next piece of every phrase is always a candidate, the fullest bank grows by one each step
until everything is said; only then may an output end. So every output holds every phrase, however unlikely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.model.inputs import SourceBatch
from headway.search.base import Hypothesis, Stepper
from headway.search.beam import Beam, BeamDraft
from headway.search.candidates import Candidates, best_of_all
from headway.search.logits_processors import Shape, forbid_where
from headway.search.loop import Parents, Shaping, write
from headway.search.required_phrases import Demands, Phrases, apart, begun, ended, follow
from headway.text.vocabulary import EOS


@dataclass
class ConstrainedDraft(BeamDraft):
    """A beam that knows what it has said."""

    demands: Demands
    said: Int[Tensor, "b #w p"]  # how often each row has said each phrase, up to the times it is needed
    heard: Bool[Tensor, "b #w p l"]  # which beginnings of each phrase each row ends with


@dataclass(frozen=True)
class Constrained:
    """A beam whose outputs hold given phrases: `phrases[i]` are those of sentence i, each a sequence of pieces."""

    beam: Beam
    phrases: Sequence[Phrases]

    @torch.inference_mode()
    def __call__(self, model: Stepper, source: SourceBatch, shapes: Sequence[Shape] = ()) -> list[list[Hypothesis]]:
        if not len(source):
            return []
        every_shape = (*self.beam.limits.shapes(source), *shapes)
        return write(model, source, self.opening(source), self.advance, every_shape)

    def opening(self, source: SourceBatch) -> ConstrainedDraft:
        draft = self.beam.opening(source)
        demands = Demands.of(self.phrases, draft.cap)
        said, heard = torch.zeros_like(demands.times), torch.zeros_like(demands.pieces, dtype=torch.bool)
        return ConstrainedDraft(**vars(draft), demands=demands, said=said[:, None], heard=heard[:, None])

    def advance(
        self, draft: ConstrainedDraft, scores: Float[Tensor, "n v"], shape: Shaping
    ) -> tuple[ConstrainedDraft, Parents]:
        beam = self.beam
        next_pieces, valid = demanded(draft)
        asked = wanted(draft, scores, next_pieces, valid)
        others = best_of_rows(draft, free(shape(scores), next_pieces, valid), beam.size + 1)
        found = Candidates(*(torch.cat(pair, dim=1) for pair in zip(asked, others, strict=True)))
        _, _, bank = progress(draft, found.parents, found.pieces)
        left = draft.cap - draft.step - 1
        hopeless = draft.demands.size[:, None] - bank > left[:, None]
        found = found._replace(totals=found.totals.masked_fill(hopeless, -torch.inf))
        order = allot(found.totals, bank)[:, : 2 * beam.size]
        after, parents = beam.settle(draft, Candidates(*(x.gather(1, order) for x in found)))
        said, heard, _ = progress(draft, parents, after.last)
        return replace(after, said=said, heard=heard), parents


def demanded(draft: ConstrainedDraft) -> tuple[Int[Tensor, "b w p"], Bool[Tensor, "b w p"]]:
    """The piece that would go on with each phrase of each row; False where none is needed or another asks the same."""
    demands = draft.demands
    every_row = demands.pieces[:, None].expand_as(draft.heard)
    pieces = every_row.gather(3, begun(demands, draft.heard)[..., None])[..., 0].clamp(min=0)
    needed = draft.said < demands.times[:, None]
    same = (pieces[..., None] == pieces[..., None, :]) & needed[..., None, :]
    return pieces, needed & ~same.tril(diagonal=-1).any(dim=-1)


def wanted(
    draft: ConstrainedDraft, scores: Float[Tensor, "n v"], pieces: Int[Tensor, "b w p"], valid: Bool[Tensor, "b w p"]
) -> Candidates:
    """A step in every phrase. Its score is the model's own: no other shape can forbid what must come out."""
    score = scores.unflatten(0, draft.last.shape).gather(2, pieces)
    totals = (draft.totals[..., None] + score).masked_fill(~valid, -torch.inf)
    parents = torch.arange(pieces.size(1), device=pieces.device)[:, None].expand_as(pieces)
    return Candidates(*(x.flatten(1) for x in (totals, score, parents, pieces)))


def free(
    scores: Float[Tensor, "n v"], pieces: Int[Tensor, "b w p"], valid: Bool[Tensor, "b w p"]
) -> Float[Tensor, "n v"]:
    """What is left to choose freely: no step in a phrase, and no end while something is still to be said."""
    scores = forbid_where(scores, pieces.flatten(0, 1), valid.flatten(0, 1))
    scores[:, EOS].masked_fill_(valid.any(dim=-1).flatten(), -torch.inf)
    return scores


def best_of_rows(draft: BeamDraft, scores: Float[Tensor, "n v"], count: int) -> Candidates:
    """The best continuations of every single row, so that no bank runs dry."""
    rows = best_of_all(scores, draft.totals.flatten()[:, None], count)
    parents = torch.arange(draft.last.size(1), device=scores.device)[:, None].expand(*draft.last.shape, count)
    found = (rows.totals, rows.scores, parents.flatten(0, 1), rows.pieces)
    return Candidates(*(x.unflatten(0, draft.last.shape).flatten(1) for x in found))


def progress(
    draft: ConstrainedDraft, parents: Int[Tensor, "b c"], pieces: Int[Tensor, "b c"]
) -> tuple[Int[Tensor, "b c p"], Bool[Tensor, "b c p l"], Int[Tensor, "b c"]]:
    """After each candidate: how often each phrase has been said, what is begun, and how many pieces of all of them."""
    demands, sentence = draft.demands, torch.arange(len(parents), device=parents.device)[:, None]
    before, times, lengths = draft.said[sentence, parents], demands.times[:, None], demands.lengths[:, None]
    heard = follow(demands, draft.heard[sentence, parents], pieces)
    now = ended(demands, heard) & (before < times)
    said, heard = before + now, apart(heard, (now * lengths).amax(dim=-1))
    unfinished = begun(demands, heard).masked_fill(said >= times, 0)
    return said, heard, (said * lengths).sum(dim=-1) + unfinished.amax(dim=-1)


def allot(totals: Float[Tensor, "b c"], bank: Int[Tensor, "b c"]) -> Int[Tensor, "b c"]:
    """Candidates in the order in which they get places: the best of each bank, the second best of each, and so on."""
    order = totals.argsort(dim=1, descending=True, stable=True)
    order = order.gather(1, bank.gather(1, order).argsort(dim=1, descending=True, stable=True))
    banks, place = bank.gather(1, order), torch.arange(order.size(1), device=order.device)
    first = torch.cat([banks[:, :1] == banks[:, :1], banks[:, 1:] != banks[:, :-1]], dim=1)
    turn = place - torch.where(first, place, 0).cummax(dim=1).values
    turn = turn.masked_fill(totals.gather(1, order) == -torch.inf, order.size(1))
    return order.gather(1, turn.argsort(dim=1, stable=True))
