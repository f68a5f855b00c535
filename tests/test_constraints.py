"""Phrases that must come out do, in every output, whatever the model thinks."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import UsageError
from headway.search import Beam, Constrained, Limits, score_texts
from headway.search.constrained import allocate_beam
from headway.search.logits_processors import BannedPhrases, NoRepeatNgram, SuppressTokens
from headway.text.protected_spans import lost
from headway.text.vocabulary import EOS
from small_steppers import Oracle, exhaustive, sources, tiny_model

PIECES = 10
PHRASE = st.lists(st.integers(4, PIECES - 1), min_size=1, max_size=3)
PHRASES = st.lists(PHRASE, max_size=3)


def times_said(phrase: tuple[int, ...], ids: list[int]) -> int:
    return sum(tuple(ids[i : i + len(phrase)]) == phrase for i in range(len(ids)))


def assert_said(phrases: list[list[int]], ids: list[int]) -> None:
    for phrase, times in Counter(map(tuple, phrases)).items():
        assert times_said(phrase, ids) >= times, (phrase, ids)


@settings(max_examples=60)
@given(
    phrases=st.lists(PHRASES, min_size=1, max_size=3),
    size=st.integers(1, 5),
    extra=st.integers(10, 16),
    end=st.floats(-3, 6),
    seed=st.integers(0, 1000),
)
def test_every_output_holds_every_phrase(
    phrases: list[list[list[int]]], size: int, extra: int, end: float, seed: int
) -> None:
    torch.manual_seed(seed)
    source = sources(*torch.randint(1, 7, (len(phrases),)).tolist(), pieces=PIECES)
    beam = Beam(size=size, n_best=size, limits=Limits(ratio=0.0, extra=extra))
    for of_one, found in zip(phrases, Constrained(beam, phrases)(Oracle(PIECES, end=end), source), strict=True):
        assert found
        for one in found:
            assert_said(of_one, one.ids)
        assert len({tuple(one.ids) for one in found}) == len(found)


@settings(max_examples=30)
@given(
    insides=st.lists(st.lists(st.integers(5, PIECES - 1), min_size=1, max_size=3), min_size=1, max_size=3),
    size=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_phrases_with_the_same_ends_do_not_share_them(insides: list[list[int]], size: int, seed: int) -> None:
    """As ``a`` and ``b`` would in ``a``b``: every phrase has a place of its own."""
    torch.manual_seed(seed)
    phrases = [[4, *inside, 4] for inside in insides]
    beam = Beam(size=size, n_best=size, limits=Limits(ratio=0.0, extra=24))
    for one in Constrained(beam, [phrases])(Oracle(PIECES, end=3.0), sources(3, pieces=PIECES))[0]:
        assert lost(map(spelled, phrases), spelled(one.ids)) == []


def spelled(ids: list[int]) -> str:
    return "".join(map(str, ids))


def test_a_cap_just_wide_enough_is_enough() -> None:
    phrases = [[[4, 5, 6], [4, 5, 7], [8]]]
    for size in (1, 2, 5):
        beam = Beam(size=size, limits=Limits(ratio=0.0, extra=8))
        found = Constrained(beam, phrases)(tiny_model(PIECES), sources(3, pieces=PIECES))[0]
        assert_said(phrases[0], found[0].ids)


def test_a_phrase_begun_in_vain_may_begin_anew() -> None:
    """After 4 4 the phrase 4 4 5 is two thirds said, and another 4 does not lose that."""
    phrases = [[[4, 4, 5]], [[4, 5, 4, 6], [5, 4]]]
    found = Constrained(Beam(size=3, n_best=3), phrases)(Oracle(PIECES), sources(3, 5, pieces=PIECES))
    for of_one, outputs in zip(phrases, found, strict=True):
        for one in outputs:
            assert_said(of_one, one.ids)


def test_a_wide_beam_finds_the_best_output_that_holds_the_phrases() -> None:
    model, source = Oracle(7), sources(3, pieces=7)
    beam = Beam(size=120, limits=Limits(ratio=0.0, extra=5))
    for phrases in ([[4, 5]], [[6], [5]], [[4], [4]]):
        found = Constrained(beam, [phrases])(model, source)[0][0]
        best = next(
            (score, ids)
            for score, ids in exhaustive(model, source[0], 5, beam.alpha)
            if all(times_said(phrase, ids) >= n for phrase, n in Counter(map(tuple, phrases)).items())
        )
        assert found.ids == best[1]
        assert found.score == pytest.approx(best[0], abs=1e-4)


def test_without_phrases_it_is_the_beam() -> None:
    for model in (Oracle(12, end=0.5), tiny_model(end=2.0)):
        source, beam = sources(2, 5, 7, 3), Beam(size=4, n_best=4)
        for one, other in zip(beam(model, source), Constrained(beam, [[]] * 4)(model, source), strict=True):
            assert [h.ids for h in one] == [h.ids for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_the_batch_changes_nothing_and_scores_are_the_models() -> None:
    model, source, beam = tiny_model(end=2.0), sources(2, 5, 7, 3), Beam(size=5, n_best=2)
    phrases = [[[5, 6]], [], [[9], [10, 11, 4], [9]], [[7]]]
    together = Constrained(beam, phrases)(model, source)
    for row, of_one, found in zip(source, phrases, together, strict=True):
        alone = Constrained(beam, [of_one])(model, row[row != 0][None])[0]
        assert [h.ids for h in found] == [h.ids for h in alone]
        assert [h.score for h in found] == pytest.approx([h.score for h in alone], abs=1e-4)
        for one in found:
            if one.finished:
                assert one.total == pytest.approx(score_texts(model, row[None], [one.ids])[0].total, abs=1e-4)


def test_what_must_be_said_overrules_what_must_not() -> None:
    phrases = [[[5, 6], [5, 6]]]
    processors = [SuppressTokens([5]), BannedPhrases([[6]]), NoRepeatNgram(1)]
    found = Constrained(Beam(), phrases)(tiny_model(), sources(4), processors)[0]
    assert_said(phrases[0], found[0].ids)
    assert found[0].ids.count(5) == 2


def test_places_go_to_every_bank_in_turn_the_fullest_first() -> None:
    totals = torch.tensor([[-1.0, -2.0, -9.0, -3.0, -8.0, -torch.inf]])
    bank = torch.tensor([[0, 0, 2, 1, 2, 3]])
    assert allocate_beam(totals, bank).tolist() == [[4, 3, 0, 2, 1, 5]]


@pytest.mark.parametrize(
    ("phrases", "told"),
    [
        ([[[4, 5], []]], "empty"),
        ([[[4, EOS]]], "special"),
        ([[[4] * 9, [5] * 11]], "20 tokens, but its output may have 19"),
        ([], "0 sentences, but there are 1"),
    ],
)
def test_what_cannot_be_said_is_refused(phrases: list[list[list[int]]], told: str) -> None:
    beam = Beam(limits=Limits(ratio=0.0, extra=20))
    with pytest.raises(UsageError, match=told) as error:
        Constrained(beam, phrases)(tiny_model(), sources(3))
    assert "\n" not in str(error.value)
