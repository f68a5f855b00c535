"""Words that must come out: beam search with a place for every stage of saying them.

Dynamic beam allocation (Post and Vilar 2018, with the vectorised allotment of Hu et al. 2019): candidates are sorted
into banks by how many tokens of their phrases they hold, and the beam takes the best of every bank in turn, the fullest
bank first. As the next token of every phrase is always a candidate, the fullest bank grows by one each step
until all phrases are complete; only then may an output end. So every output holds every phrase, however unlikely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.model.inputs import SourceBatch
from headway.search.base import Hypothesis, Stepper
from headway.search.beam import Beam, BeamState
from headway.search.candidates import Candidates, best_of_all
from headway.search.logits_processors import LogitsProcessor, forbid_where
from headway.search.loop import Parents, ProcessScores, run_search
from headway.search.required_phrases import (
    Constraints,
    Phrases,
    extend_matches,
    just_completed,
    matched_length,
    without_overlap,
)
from headway.text.vocabulary import EOS


@dataclass
class ConstrainedState(BeamState):
    """A beam that knows what it has said."""

    constraints: Constraints
    completed: Int[Tensor, "b #w p"]  # how often each row has completed each phrase, up to the times it is needed
    matched: Bool[Tensor, "b #w p l"]  # which beginnings of each phrase each row ends with


@dataclass(frozen=True)
class Constrained:
    """A beam whose outputs hold given phrases: `phrases[i]` are those of sentence i, each a sequence of tokens."""

    beam: Beam
    phrases: Sequence[Phrases]

    @torch.inference_mode()
    def __call__(
        self, model: Stepper, source: SourceBatch, logits_processors: Sequence[LogitsProcessor] = ()
    ) -> list[list[Hypothesis]]:
        if not len(source):
            return []
        logits_processors = (*self.beam.limits.logits_processors(source), *logits_processors)
        return run_search(model, source, self.initial_state(source), self.advance, logits_processors)

    def initial_state(self, source: SourceBatch) -> ConstrainedState:
        state = self.beam.initial_state(source)
        constraints = Constraints.of(self.phrases, state.cap)
        completed, matched = torch.zeros_like(constraints.times), torch.zeros_like(constraints.tokens, dtype=torch.bool)
        return ConstrainedState(
            **vars(state), constraints=constraints, completed=completed[:, None], matched=matched[:, None]
        )

    def advance(
        self, state: ConstrainedState, scores: Float[Tensor, "n v"], process: ProcessScores
    ) -> tuple[ConstrainedState, Parents]:
        beam = self.beam
        next_pieces, valid = required_tokens(state)
        asked = forced_candidates(state, scores, next_pieces, valid)
        others = best_of_rows(state, unforced_scores(process(scores), next_pieces, valid), beam.size + 1)
        found = Candidates(*(torch.cat(pair, dim=1) for pair in zip(asked, others, strict=True)))
        _, _, bank = progress(state, found.parents, found.tokens)
        left = state.cap - state.step - 1
        hopeless = state.constraints.size[:, None] - bank > left[:, None]
        found = found._replace(totals=found.totals.masked_fill(hopeless, -torch.inf))
        order = allocate_beam(found.totals, bank)[:, : 2 * beam.size]
        after, parents = beam.next_state(state, Candidates(*(x.gather(1, order) for x in found)))
        completed, matched, _ = progress(state, parents, after.last)
        return replace(after, completed=completed, matched=matched), parents


def required_tokens(state: ConstrainedState) -> tuple[Int[Tensor, "b w p"], Bool[Tensor, "b w p"]]:
    """The token that would go on with each phrase of each row; False where none is needed or another asks the same."""
    constraints = state.constraints
    every_row = constraints.tokens[:, None].expand_as(state.matched)
    tokens = every_row.gather(3, matched_length(constraints, state.matched)[..., None])[..., 0].clamp(min=0)
    needed = state.completed < constraints.times[:, None]
    same = (tokens[..., None] == tokens[..., None, :]) & needed[..., None, :]
    return tokens, needed & ~same.tril(diagonal=-1).any(dim=-1)


def forced_candidates(
    state: ConstrainedState, scores: Float[Tensor, "n v"], tokens: Int[Tensor, "b w p"], valid: Bool[Tensor, "b w p"]
) -> Candidates:
    """A step in every phrase. Its score is the model's own: no logits processor can forbid a required token."""
    score = scores.unflatten(0, state.last.shape).gather(2, tokens)
    totals = (state.totals[..., None] + score).masked_fill(~valid, -torch.inf)
    parents = torch.arange(tokens.size(1), device=tokens.device)[:, None].expand_as(tokens)
    return Candidates(*(x.flatten(1) for x in (totals, score, parents, tokens)))


def unforced_scores(
    scores: Float[Tensor, "n v"], tokens: Int[Tensor, "b w p"], valid: Bool[Tensor, "b w p"]
) -> Float[Tensor, "n v"]:
    """What is left to choose freely: no step in a phrase, and no end while something is still to be said."""
    scores = forbid_where(scores, tokens.flatten(0, 1), valid.flatten(0, 1))
    scores[:, EOS].masked_fill_(valid.any(dim=-1).flatten(), -torch.inf)
    return scores


def best_of_rows(state: BeamState, scores: Float[Tensor, "n v"], count: int) -> Candidates:
    """The best continuations of every single row, so that no bank runs dry."""
    rows = best_of_all(scores, state.totals.flatten()[:, None], count)
    parents = torch.arange(state.last.size(1), device=scores.device)[:, None].expand(*state.last.shape, count)
    found = (rows.totals, rows.scores, parents.flatten(0, 1), rows.tokens)
    return Candidates(*(x.unflatten(0, state.last.shape).flatten(1) for x in found))


def progress(
    state: ConstrainedState, parents: Int[Tensor, "b c"], tokens: Int[Tensor, "b c"]
) -> tuple[Int[Tensor, "b c p"], Bool[Tensor, "b c p l"], Int[Tensor, "b c"]]:
    """After each candidate: completed phrases, matched beginnings, and how many tokens of all phrases it holds."""
    constraints, sentence = state.constraints, torch.arange(len(parents), device=parents.device)[:, None]
    before, times, lengths = (
        state.completed[sentence, parents],
        constraints.times[:, None],
        constraints.lengths[:, None],
    )
    matched = extend_matches(constraints, state.matched[sentence, parents], tokens)
    now = just_completed(constraints, matched) & (before < times)
    completed, matched = before + now, without_overlap(matched, (now * lengths).amax(dim=-1))
    unfinished = matched_length(constraints, matched).masked_fill(completed >= times, 0)
    return completed, matched, (completed * lengths).sum(dim=-1) + unfinished.amax(dim=-1)


def allocate_beam(totals: Float[Tensor, "b c"], bank: Int[Tensor, "b c"]) -> Int[Tensor, "b c"]:
    """Candidates in the order in which they get places: the best of each bank, the second best of each, and so on."""
    order = totals.argsort(dim=1, descending=True, stable=True)
    order = order.gather(1, bank.gather(1, order).argsort(dim=1, descending=True, stable=True))
    banks, place = bank.gather(1, order), torch.arange(order.size(1), device=order.device)
    first = torch.cat([banks[:, :1] == banks[:, :1], banks[:, 1:] != banks[:, :-1]], dim=1)
    turn = place - torch.where(first, place, 0).cummax(dim=1).values
    turn = turn.masked_fill(totals.gather(1, order) == -torch.inf, order.size(1))
    return order.gather(1, turn.argsort(dim=1, stable=True))
