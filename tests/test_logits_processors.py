"""Shapes: each against its rule written out piece by piece."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headway.errors import UsageError
from headway.search import Beam, Greedy, Limits, Sample, score_texts
from headway.search.base import Search
from headway.search.logits_processors import (
    BannedPhrases,
    ForcedPrefix,
    GeneratedTokens,
    LogitsProcessor,
    NoRepeatNgram,
    SuppressTokens,
    Temperature,
)
from headway.search.well_formed import Brackets, WellFormed
from headway.text.vocabulary import EOS
from small_steppers import Oracle, sources, tiny_model

PIECES = 9
TEXTS = st.lists(st.lists(st.integers(4, PIECES - 1), min_size=6, max_size=6), min_size=1, max_size=4)
BRIEF = Limits(ratio=0.0, extra=9)
SEARCHES: list[Search] = [Greedy(limits=BRIEF), Beam(size=4, n_best=4, limits=BRIEF), Sample(count=4, limits=BRIEF)]


def allowed(process: LogitsProcessor, ids: list[list[int]]) -> list[set[int]]:
    """What a processor leaves possible after each text."""
    written = GeneratedTokens(torch.tensor(ids), torch.arange(len(ids)), torch.full((len(ids),), 20))
    scores = torch.randn(len(ids), PIECES).log_softmax(dim=1)
    shaped = process(scores.clone(), written)
    left = shaped > -torch.inf
    assert torch.equal(shaped[left], scores[left])
    return [set(row.nonzero()[:, 0].tolist()) for row in left]


@given(texts=TEXTS, size=st.integers(1, 8))
def test_no_repeat_forbids_what_would_repeat(texts: list[list[int]], size: int) -> None:
    for ids, left in zip(texts, allowed(NoRepeatNgram(size), texts), strict=True):
        runs = {tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)}
        end = ids[len(ids) - size + 1 :] if size > 1 else []
        assert left == {piece for piece in range(PIECES) if (*end, piece) not in runs}


@given(texts=TEXTS, words=st.lists(st.lists(st.integers(4, PIECES - 1), min_size=1, max_size=8), min_size=1))
def test_banned_words_cannot_be_completed(texts: list[list[int]], words: list[list[int]]) -> None:
    for ids, left in zip(texts, allowed(BannedPhrases(words), texts), strict=True):
        wrong = {word[-1] for word in words if [*ids, word[-1]][-len(word) :] == word}
        assert left == set(range(PIECES)) - wrong


def test_never_means_never() -> None:
    assert allowed(SuppressTokens([5, 7]), [[4, 4]]) == [set(range(PIECES)) - {5, 7}]


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam", "sample"])
@pytest.mark.parametrize("end", [-2.0, 1.0])
def test_shapes_hold_in_whole_outputs_and_together(search: Search, end: float) -> None:
    processors = [NoRepeatNgram(2), BannedPhrases([[5, 6], [7]]), SuppressTokens([8])]
    for found in search(Oracle(12, end=end), sources(3, 6, 2), processors):
        for one in found:
            pairs = list(zip(one.ids, one.ids[1:], strict=False))
            assert len(set(pairs)) == len(pairs)
            assert (5, 6) not in pairs and 7 not in one.ids and 8 not in one.ids


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam", "sample"])
def test_prefixes_of_different_lengths_are_kept(search: Search) -> None:
    model, source, prefixes = tiny_model(end=1.0), sources(3, 6, 2), [[5, 6, 7], [], [9]]
    for row, prefix, found in zip(source, prefixes, search(model, source, [ForcedPrefix(prefixes)]), strict=True):
        for one in found:
            assert one.ids[: len(prefix)] == prefix
            if one.finished:
                assert one.total == pytest.approx(score_texts(model, row[None], [one.ids])[0].total, abs=1e-4)


def test_a_forbidden_piece_may_be_a_prefix_and_costs_nothing() -> None:
    found = Greedy(limits=BRIEF)(tiny_model(), sources(3), [SuppressTokens([8]), ForcedPrefix([[8]])])[0][0]
    assert found.ids[0] == 8 and 8 not in found.ids[1:]
    assert found.token_scores[0] == 0


def test_temperature_is_a_softmax_of_divided_scores() -> None:
    scores = torch.randn(2, PIECES)
    shaped = Temperature(0.5)(
        scores.log_softmax(1), GeneratedTokens(torch.zeros(2, 0).long(), torch.arange(2), torch.ones(2).long())
    )
    assert torch.allclose(shaped, (2 * scores).log_softmax(1), atol=1e-6)


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam", "sample"])
def test_where_everything_is_forbidden_the_output_is_cut(search: Search) -> None:
    def silence(scores: Tensor, written: GeneratedTokens) -> Tensor:
        return scores.fill_(-torch.inf) if written.ids.size(1) == 2 else scores

    for found in search(tiny_model(end=-9.0), sources(3, 5), [silence]):
        assert found and all(len(one.ids) <= 2 and not one.finished for one in found)


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam", "sample"])
@pytest.mark.parametrize("cap", [3, 9])
def test_brackets_close(search: Any, cap: int) -> None:
    pairs, seen = [(4, 5), (6, 7)], set()
    search = replace(search, limits=Limits(ratio=0.0, extra=cap))
    for end in (-3.0, 1.0):
        for found in search(Oracle(10, end=end), sources(*range(1, 9)), [WellFormed(Brackets(pairs))]):
            for one in found:
                seen |= {4, 5, 6, 7} & set(one.ids)
                assert balanced(one.ids, dict(pairs)), one.ids
    assert seen == {4, 5, 6, 7}


def balanced(ids: list[int], closes: dict[int, int]) -> bool:
    stack = []
    for piece in ids:
        if piece in closes:
            stack.append(closes[piece])
        elif piece in closes.values() and (not stack or stack.pop() != piece):
            return False
    return not stack


def test_impossible_shapes_are_refused() -> None:
    for wrong in (
        lambda: NoRepeatNgram(0),
        lambda: BannedPhrases([[4], []]),
        lambda: ForcedPrefix([[4, EOS]]),
        lambda: Temperature(0.0),
        lambda: Brackets([(4, 4)]),
        lambda: Brackets([]),
    ):
        with pytest.raises(UsageError) as error:
            wrong()
        assert "\n" not in str(error.value)
