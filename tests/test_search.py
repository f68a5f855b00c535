"""Search: against exhaustive search, a slow beam written out, forced decoding and Hugging Face."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headway.config import dump, from_dict
from headway.engines.cuda.states import Fixed
from headway.errors import UsageError
from headway.search import (
    Beam,
    Greedy,
    Hypothesis,
    Limits,
    Sample,
    SearchSettings,
    score,
    score_texts,
)
from headway.search import candidates as candidates_file
from headway.search.base import Search, Stepper, loops
from headway.search.candidates import best_of_all, best_of_each
from headway.search.loop import flatten_parents, forbid_special_tokens, log_probabilities
from headway.text.vocabulary import BOS, EOS, PAD, UNK
from small_steppers import DESIGN, Oracle, exhaustive, next_scores, sources, tell, tiny_model

SHORT = Limits(ratio=0.0, extra=6)

# ---------------------------------------------------------------- the slow and plain way


def plain_beam(model: Stepper, source: Tensor, steps: int, beam: Beam) -> list[tuple[float, list[int]]]:
    """The beam written out for one sentence, which never stops before its cap."""
    finished, alive = [], [((), 0.0)]
    for step in range(1, steps + 1):
        every = []
        for ids, total in alive:
            scores = next_scores(model, source, ids)
            every += [(total + scores[piece], ids, piece) for piece in range(3, len(scores))]
        best = sorted(every, key=lambda one: -one[0])[: 2 * beam.size]
        finished += [tell(ids, t, step, beam.alpha) for t, ids, piece in best[: beam.size] if piece == EOS]
        alive = [((*ids, piece), t) for t, ids, piece in best if piece != EOS][: beam.size]
    return sorted(finished, key=lambda one: -one[0])


def told(hypotheses: list[Hypothesis]) -> list[tuple[float, list[int]]]:
    return [(one.score, one.ids) for one in hypotheses if one.finished]


def assert_same(found: list[tuple[float, list[int]]], expected: list[tuple[float, list[int]]]) -> None:
    assert [ids for _, ids in found] == [ids for _, ids in expected]
    assert [s for s, _ in found] == pytest.approx([s for s, _ in expected], abs=1e-4)


# ---------------------------------------------------------------- beam


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_as_wide_as_the_tree_is_exhaustive(alpha: float) -> None:
    model, source = Oracle(pieces=7), sources(3, 5, 1, pieces=7)
    beam = Beam(size=90, n_best=8, alpha=alpha, limits=Limits(ratio=0.0, extra=4))
    for row, found in zip(source, beam(model, source), strict=True):
        assert_same(told(found), exhaustive(model, row, 4, alpha)[:8])


@settings(max_examples=50)
@given(
    size=st.integers(2, 6),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    end=st.floats(-1, 3),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_stopping_early_loses_nothing(size: int, alpha: float, end: float, seed: int, data: st.DataObject) -> None:
    torch.manual_seed(seed)
    model, source = Oracle(pieces=9, end=end), sources(2, 4)
    beam = Beam(size=size, n_best=data.draw(st.integers(1, size)), alpha=alpha, limits=SHORT)
    for row, found in zip(source, beam(model, source), strict=True):
        assert_same(told(found), plain_beam(model, row, 6, beam)[: beam.n_best])


@pytest.mark.parametrize("end", [-1.0, 0.0, 2.0])
def test_a_beam_of_one_is_greedy(end: float) -> None:
    source = sources(*range(1, 9))
    for model in (Oracle(pieces=12, end=end), tiny_model(end=end)):
        one, greedy = Beam(size=1)(model, source), Greedy()(model, source)
        assert [h[0].ids for h in one] == [h[0].ids for h in greedy]
        assert [h[0].finished for h in one] == [h[0].finished for h in greedy]
        assert [h[0].score for h in one] == pytest.approx([h[0].score for h in greedy], abs=1e-5)


def test_greedy_takes_the_best_piece_every_time() -> None:
    model, source = Oracle(pieces=10), sources(4)
    found, ids = Greedy(limits=SHORT)(model, source)[0][0], ()
    for _ in range(6):
        scores = next_scores(model, source[0], ids)
        best = max(range(3, 10), key=lambda piece: scores[piece])
        if best == EOS:
            break
        ids = (*ids, best)
    assert found.ids == list(ids)


def test_n_best_lists_are_sorted_and_distinct() -> None:
    for found in Beam(size=6, n_best=6)(tiny_model(end=2.0), sources(3, 8, 5)):
        assert len(found) == 6
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        assert len({tuple(h.ids) for h in found}) == 6


def test_patience_stops_at_once() -> None:
    model, source = tiny_model(end=3.0), sources(6, 9)
    quick, calls = Beam(size=4, patience=0.25), [0, 0]
    for place, beam in enumerate((quick, Beam(size=4, n_best=4))):
        counting = Counting(model)
        beam(counting, source)
        calls[place] = counting.steps
    assert calls[0] < calls[1]


class Counting:
    """Counts steps and the rows of each."""

    def __init__(self, model: Stepper) -> None:
        self.model, self.steps, self.rows = model, 0, []
        self.start = model.start

    def step(self, last: Tensor, rows: Any) -> Tensor:
        self.steps += 1
        self.rows.append(len(last))
        return self.model.step(last, rows)


def test_finished_sentences_leave_the_batch() -> None:
    counting = Counting(tiny_model(end=2.0))
    Greedy()(counting, sources(*range(2, 14)))
    assert counting.rows[-1] < counting.rows[0] == 12


# ---------------------------------------------------------------- the batch changes nothing


BRIEF = Limits(ratio=1.0, extra=4)
SEARCHES: list[Search] = [
    Greedy(limits=BRIEF),
    Beam(size=4, n_best=4, limits=BRIEF),
    Beam(size=3, alpha=1.0, limits=BRIEF),
]


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam 4", "beam 3"])
@pytest.mark.parametrize("make", [lambda: tiny_model(end=1.0), lambda: Oracle(12, end=0.5)], ids=["model", "oracle"])
def test_one_by_one_batched_shuffled_and_padded_agree(search: Search, make: Callable[[], Any]) -> None:
    model, source = make(), sources(*range(1, 14))
    alone = [search(model, row[row != PAD][None])[0] for row in source]
    order = torch.randperm(len(source))
    padded = torch.nn.functional.pad(source[order], (0, 3))
    shuffled = dict(zip(order.tolist(), search(model, padded), strict=True))
    for place, (one, batched) in enumerate(zip(alone, search(model, source), strict=True)):
        for other in (batched, shuffled[place]):
            assert [h.ids for h in one] == [h.ids for h in other]
            assert [h.finished for h in one] == [h.finished for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


@pytest.mark.parametrize("search", [*SEARCHES, Sample(count=3)], ids=["greedy", "beam 4", "beam 3", "sample"])
def test_every_score_is_that_of_forced_decoding(search: Search) -> None:
    model, source = tiny_model(end=1.0), sources(*range(1, 9))
    for row, found in zip(source, search(model, source), strict=True):
        whole = [one for one in found if one.finished]
        if whole:
            forced = score_texts(model, row.expand(len(whole), -1), [one.ids for one in whole])
            for one, other in zip(whole, forced, strict=True):
                assert one.total == pytest.approx(other.total, abs=1e-4)
                assert one.score == pytest.approx(other.score, abs=1e-4)
                assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)
                assert sum(one.token_scores) == pytest.approx(one.total, abs=1e-4)


def test_scores_are_sums_of_steps_and_padding_counts_nothing() -> None:
    model, source = tiny_model(), sources(4, 2)
    target = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]])
    scores = score(model, source, target)
    assert scores[1, 2:].tolist() == [0, 0]
    for row, ids, forced in zip(source, [[5, 6, 7, EOS], [8, EOS]], scores.tolist(), strict=True):
        steps = [next_scores(model, row[row != PAD], tuple(ids[:i]))[piece] for i, piece in enumerate(ids)]
        assert forced[: len(ids)] == pytest.approx(steps, abs=1e-4)


def test_a_step_of_fixed_shapes_finds_the_same() -> None:
    """As a captured graph would run it: a full beam from the start, buffers that stay, no look at what is done."""
    model, source, beam = tiny_model(end=2.0), sources(3, 7, 5), Beam(size=4, n_best=2)
    expected = beam(model, source)
    with torch.inference_mode():
        draft = beam.initial_state(source, width=4)
        rows = model.start(source, lambda: Fixed(draft.ids.size(2)))
        shapes = [tensor.shape for tensor in vars(draft).values() if isinstance(tensor, Tensor)]
        for _ in range(draft.ids.size(2)):
            scores = forbid_special_tokens(log_probabilities(model.step(draft.last.flatten(), rows)))
            draft, parents = beam.next_state(draft, best_of_all(scores, draft.totals, 8))
            rows.reorder(flatten_parents(parents, 4))
            assert shapes == [tensor.shape for tensor in vars(draft).values() if isinstance(tensor, Tensor)]
    for one, other in zip(expected, draft.hypotheses(), strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_no_sentence_no_output() -> None:
    nothing = torch.zeros(0, 4, dtype=torch.long)
    assert Greedy()(tiny_model(), nothing) == Beam()(tiny_model(), nothing) == Sample()(tiny_model(), nothing) == []


# ---------------------------------------------------------------- the best of a vocabulary


@given(
    sentences=st.integers(1, 4),
    beam=st.integers(1, 5),
    pieces=st.integers(1, 400),
    count=st.integers(1, 12),
    dead=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_best_by_blocks_are_the_best(
    sentences: int, beam: int, pieces: int, count: int, dead: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    scores, totals = torch.randn(sentences * beam, pieces), torch.randn(sentences, beam)
    if dead:
        totals[:, 1:] = -torch.inf
    before, candidates_file.SMALL = candidates_file.SMALL, 0
    try:
        best, (values, places) = best_of_all(scores, totals, count), best_of_each(scores)
    finally:
        candidates_file.SMALL = before
    every = (scores.view(sentences, beam, pieces) + totals[..., None]).flatten(1)
    expected = every.sort(dim=1, descending=True).values[:, :count]
    missing = torch.full((sentences, count - expected.size(1)), -torch.inf)
    assert torch.equal(best.totals, torch.cat([expected, missing], dim=1))
    real = best.totals > -torch.inf
    assert torch.equal(every.gather(1, best.parents * pieces + best.tokens)[real], best.totals[real])
    assert torch.equal(values, scores.amax(dim=1)) and torch.equal(places, scores.argmax(dim=1))


# ---------------------------------------------------------------- limits, runaways, what never comes out


def test_the_cap_belongs_to_the_sentence_and_cuts_are_flagged() -> None:
    model, source = tiny_model(end=-50.0), sources(1, 9, 4)
    limits = Limits(ratio=1.5, extra=2, longest=13)
    for search in (Greedy(limits=limits), Beam(size=3, limits=limits), Sample(limits=limits)):
        found = [one[0] for one in search(model, source)]
        assert [len(one.ids) for one in found] == [5, 13, 9]
        assert not any(one.finished for one in found)
        assert all(len(one.token_scores) == len(one.ids) for one in found)


def test_a_finished_output_comes_before_a_cut_one() -> None:
    found = Beam(size=4, n_best=4, limits=Limits(ratio=0.0, extra=3))(Oracle(12), sources(3, 4, 5, 6))
    flags = [[one.finished for one in each] for each in found]
    assert all(each == sorted(each, reverse=True) for each in flags)
    assert any(True in each and False in each for each in flags)


@pytest.mark.parametrize("search", [Greedy, Beam, Sample])
def test_outputs_are_as_long_as_asked(search: Callable[..., Search]) -> None:
    model, source = tiny_model(end=6.0), sources(2, 9)
    short, relative = Limits(shortest=7), Limits(shortest_ratio=1.0)
    assert all(len(one[0].ids) >= 7 for one in search(limits=short)(model, source))
    outputs = search(limits=relative)(model, source)
    assert all(len(one[0].ids) >= least for one, least in zip(outputs, (2, 9), strict=True))


def test_special_pieces_never_come_out() -> None:
    model = tiny_model()
    with torch.no_grad():
        assert model.head.bias is not None
        model.head.bias[[PAD, UNK, BOS]] += 100.0
    for search in (Greedy(), Beam(n_best=5), Sample(count=5)):
        for found in search(model, sources(4, 6)):
            assert all(piece > EOS for one in found for piece in one.ids)


@given(ids=st.lists(st.integers(0, 2), max_size=60), times=st.integers(2, 5), longest=st.integers(1, 10))
def test_loops_are_what_a_regular_expression_finds(ids: list[int], times: int, longest: int) -> None:
    text = "".join(map(str, ids))
    pattern = rf"(.{{1,{longest}}})" + r"\1" * (times - 1)
    assert loops(ids, times, longest) == (re.search(pattern, text) is not None)


def test_a_loop_is_flagged() -> None:
    assert Hypothesis([4, 5, 6] * 4, 0, 0, [], False).looping
    assert not Hypothesis([4, 5, 6] * 3, 0, 0, [], False).looping


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Beam(size=0),
        lambda: Beam(size=2, n_best=3),
        lambda: Beam(alpha=-1.0),
        lambda: Beam(patience=0.0),
        lambda: Sample(temperature=0.0),
        lambda: Sample(nucleus=0.0),
        lambda: Sample(top_k=-1),
        lambda: Sample(least=1.0),
        lambda: Sample(count=0),
        lambda: Limits(longest=0),
        lambda: Limits(ratio=float("nan")),
        lambda: Limits(shortest=600),
    ],
)
def test_impossible_settings_are_refused_in_one_line(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ValueError) as error:
        wrong()
    assert "\n" not in str(error.value)


def test_settings_go_through_toml() -> None:
    @dataclass(frozen=True)
    class Settings:
        search: SearchSettings

    assert from_dict(Settings, {"search": {"kind": "beam", "size": 7}}).search == Beam(size=7)
    assert from_dict(Settings, {"search": {"kind": "sample", "seed": 3}}).search == Sample(seed=3)
    with pytest.raises(UsageError, match="size"):
        from_dict(Beam, {"size": 0})
    assert "size = 5  # outputs of a sentence" in dump(Beam())


# ---------------------------------------------------------------- Hugging Face


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    """One random model, in our form and in Hugging Face's."""
    transformers = pytest.importorskip("transformers")
    from headway.exchange.huggingface import to_marian

    ours = tiny_model(pieces=24, end=3.0, sharp=1.0)
    state, config = to_marian(DESIGN, ours.state_dict())
    theirs = transformers.MarianMTModel(transformers.MarianConfig(**config)).eval()
    theirs.load_state_dict(state, strict=False)
    return ours, theirs


LIKE_THEIRS = Limits(ratio=0.0, extra=20, shortest=4)


def generate(theirs: Any, source: Tensor, **settings: Any) -> Any:
    return theirs.generate(
        source,
        attention_mask=(source != PAD).long(),
        max_new_tokens=20,
        min_new_tokens=4,
        suppress_tokens=[PAD, UNK, BOS],
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
        **settings,
    )


def test_greedy_finds_what_hugging_face_finds(pair: tuple[Any, Any]) -> None:
    (ours, theirs), source = pair, sources(*range(2, 12), pieces=24)
    output = generate(theirs, source, num_beams=1)
    found = [one[0] for one in Greedy(limits=LIKE_THEIRS)(ours, source)]
    assert [one.ids for one in found] == [without_special(row) for row in output.sequences.tolist()]


def without_special(ids: list[int]) -> list[int]:
    return [piece for piece in ids if piece > EOS]


def test_a_beam_finds_what_hugging_face_finds(pair: tuple[Any, Any]) -> None:
    (ours, theirs), source = pair, sources(*range(2, 12), pieces=24)
    output = generate(theirs, source, num_beams=4, num_return_sequences=4, length_penalty=0.0, early_stopping="never")
    search = Beam(size=4, n_best=4, alpha=0.0, limits=LIKE_THEIRS)
    found = [one for each in search(ours, source) for one in each]
    sequences = [without_special(row) for row in output.sequences.tolist()]
    assert all(one.finished for one in found)
    assert len({tuple(one.ids) for one in found}) > 20
    assert [one.ids for one in found] == sequences
    assert [one.total for one in found] == pytest.approx(output.sequences_scores.tolist(), abs=1e-3)
