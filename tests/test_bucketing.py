"""The order of examples and how they are packed: every one once, nothing remembered, little padding, few shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data import bucketing
from headway.data import order as orders
from headway.data.bucketing import Bounded, Exact, Lengths, Plan, Shape
from headway.data.order import Cursor, Order, permute

# ---------------------------------------------------------------- permutation


@given(st.integers(1, 3000), st.integers(-(2**70), 2**70))
def test_a_permutation_is_a_bijection(size: int, key: int) -> None:
    assert sorted(permute(np.arange(size), size, (key,))) == [*range(size)]


@pytest.mark.parametrize("size", [1, 2, 3, 2**16, 2**16 + 1, 99_991])
def test_a_permutation_can_be_asked_for_some_places_only(size: int) -> None:
    everything = permute(np.arange(size), size, (7, 8))
    some = np.random.default_rng(0).integers(0, size, 100)
    assert (permute(some, size, (7, 8)) == everything[some]).all()


def test_a_permutation_of_a_thousand_million_needs_no_table() -> None:
    places = np.arange(10**9 - 5000, 10**9)
    sent = permute(places, 10**9, (1,))
    assert len(np.unique(sent)) == 5000
    assert 0 <= sent.min() < 10**7 < 9.9 * 10**8 < sent.max() < 10**9


def test_all_permutations_of_four_are_about_equally_likely() -> None:
    """Chi-squared with 23 degrees of freedom is above 60 once in 30,000."""
    seen = Counter(tuple(permute(np.arange(4), 4, (key,)).tolist()) for key in range(2400))
    assert sum((seen[each] - 100) ** 2 / 100 for each in seen) + 100 * (24 - len(seen)) < 60


def test_a_permutation_does_not_remember_where_a_place_was() -> None:
    sent = permute(np.arange(50_000), 50_000, (3,))
    assert abs(np.corrcoef(sent[:-1], sent[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(sent, np.arange(50_000))[0, 1]) < 0.02


# ---------------------------------------------------------------- windows and epochs


def visit(order: Order, epoch: int) -> list[int]:
    return [int(x) for window in range(order.windows_in(epoch)) for x in order.examples(epoch, window)]


@pytest.mark.parametrize("sizes", [[1], [99], [100], [101], [1000], [30, 0, 270, 1]])
def test_every_example_once_an_epoch(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    monkeypatch.setattr(orders, "WINDOW_EXAMPLES", 100)
    order = Order(sizes, [1.0] * len(sizes), seed=5)
    for epoch in range(3):
        assert sorted(visit(order, epoch)) == [*range(sum(sizes))]
        parts = [len(order.examples(epoch, window)) for window in range(order.windows_in(epoch))]
        assert max(parts) <= 100
        assert max(parts) - min(parts) <= 1


def test_order_depends_on_seed_and_epoch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "WINDOW_EXAMPLES", 50)
    seen = {
        (seed, epoch): tuple(visit(Order([500], [1.0], seed), epoch)) for seed, epoch in product(range(3), range(3))
    }
    assert len(set(seen.values())) == 9
    assert tuple(visit(Order([500], [1.0], 1), 2)) == seen[1, 2]


def test_windows_of_long_documents_are_smaller() -> None:
    assert Order([100_000], [1.0], 0, pieces=100_000 * 1600).windows_in(0) == 10
    assert Order([100_000], [1.0], 0, pieces=100_000 * 40).windows_in(0) == 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.decimals(0, 4, places=2)), min_size=1, max_size=3))
def test_weights_repeat_evenly(corpora: list[tuple[int, object]]) -> None:
    sizes, weights = [size for size, _ in corpora], [float(str(weight)) for _, weight in corpora]
    if not any(size * weight for size, weight in zip(sizes, weights, strict=True)):
        with pytest.raises(ValueError, match="no examples"):
            Order(sizes, weights, 3)
        return
    order = Order(sizes, weights, 3)
    seen: Counter[int] = Counter()
    first = np.cumsum([0, *sizes])
    for epoch in range(5):
        visited = visit(order, epoch)
        seen.update(visited)
        for corpus, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
            own = [x for x in visited if first[corpus] <= x < first[corpus + 1]]
            assert abs(len(own) - size * weight) < 1
            counts = [seen[x] for x in range(first[corpus], first[corpus + 1])]
            assert max(counts, default=0) - min(counts, default=0) <= 1


def test_a_tenth_of_ten_is_one_every_epoch() -> None:
    assert [Order([10, 5], [0.7, 0.2], 0).examples_in(epoch) for epoch in range(20)] == [8] * 20


def test_weights_must_fit_the_corpora() -> None:
    with pytest.raises(ValueError, match="2 corpora need as many weights"):
        Order([1, 2], [1.0], 0)
    with pytest.raises(ValueError, match="weights of at least 0"):
        Order([1, 2], [1.0, -1.0], 0)


def test_a_cursor_settles_on_a_window_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "WINDOW_EXAMPLES", 4)
    order = Order([10], [1.0], 0)  # three windows an epoch
    assert order.settle(Cursor(1, 2, 7)) == Cursor(1, 2, 7)
    assert order.settle(Cursor(1, 3, 7)) == Cursor(2)
    assert order.after(Cursor(1, 1, 7)) == Cursor(1, 2)
    assert order.after(Cursor(1, 2, 7)) == Cursor(2)
    rare = Order([1], [0.25], 0)
    assert rare.settle(Cursor()) == Cursor(3)
    assert rare.after(Cursor(3)) == Cursor(7)
    assert Cursor(*astuple(Cursor(1, 2, 3))) == Cursor(1, 2, 3)
    with pytest.raises(ValueError, match="not be negative"):
        Cursor(0, -1, 0)


# ---------------------------------------------------------------- packing


def generate(count: int, seed: int = 0, stretch: float = 1.0) -> Lengths:
    """Lengths as in a corpus of captions: about 15 on either side, related but not equal."""
    rng = np.random.default_rng(seed)
    source = np.exp(rng.normal(2.65, 0.35, count))
    target = source * stretch * np.exp(rng.normal(0, 0.17, count))
    return Lengths(*(side.round().astype(int).clip(2, 60) for side in (source, target)))


def padding(plans: list[Plan], lengths: Lengths) -> float:
    positions = sum(shape.rows * (shape.source + shape.target) for plan in plans for shape in plan.shapes)
    return 1 - len(plans) * int(lengths.source.sum() + lengths.target.sum()) / positions


def check(plan: Plan, lengths: Lengths, tokens: int, sentences: int | None = None) -> None:
    batches = [plan.batch(number) for number in range(len(plan))]
    assert sorted(np.concatenate([rows for rows, _ in batches])) == [*range(len(lengths.source))]
    for rows, shape in batches:
        assert 0 < len(rows) <= shape.rows <= (sentences or tokens)
        assert lengths.source[rows].max() <= shape.source
        assert lengths.target[rows].max() <= shape.target
        assert shape.rows * max(shape.source, shape.target) <= tokens


KINDS = ("exact", "bounded")


def make(kind: str, lengths: Lengths, tokens: int, sentences: int | None = None, longest: int = 60) -> Exact:
    return {
        "exact": lambda: Exact(tokens, sentences, longest),
        "bounded": lambda: Bounded(tokens, sentences, longest, lengths),
    }[kind]()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 7, 100, 5000])
@pytest.mark.parametrize(("tokens", "sentences"), [(60, None), (1000, None), (4096, 16), (20480, None)])
def test_every_row_in_one_batch_within_the_budget(kind: str, count: int, tokens: int, sentences: int | None) -> None:
    lengths = generate(count)
    pack = make(kind, lengths, tokens, sentences)
    check(pack.pack(lengths, np.random.default_rng(1)), lengths, tokens, sentences)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80), st.integers(60, 500))
def test_any_lengths_can_be_packed(pairs: list[tuple[int, int]], tokens: int) -> None:
    lengths = Lengths(*np.array(pairs).T)
    for kind in KINDS:
        check(make(kind, lengths, tokens).pack(lengths, np.random.default_rng(1)), lengths, tokens)


def test_shapes_of_a_sample_serve_rows_it_did_not_have() -> None:
    pack = Bounded(4096, None, 900, generate(1000))
    lengths = generate(3000, seed=1, stretch=3.0)
    lengths.source[:5] = 900
    check(pack.pack(lengths, np.random.default_rng(0)), lengths, 4096)


def test_little_padding_with_exact_shapes() -> None:
    lengths = generate(29_000)
    pack = Exact(4096, None, 60)
    assert padding([pack.pack(lengths, np.random.default_rng(0))], lengths) < 0.05


@pytest.mark.parametrize("stretch", [0.5, 1.0, 1.4])
def test_few_shapes_cost_little_more_padding(stretch: float) -> None:
    """Over many epochs, for languages of like and of unlike length; with two dozen batches an epoch."""
    lengths = generate(29_000, stretch=stretch)
    pack = Bounded(20_480, None, 60, lengths)
    plans, exact = (
        [each.pack(lengths, np.random.default_rng(epoch)) for epoch in range(10)]
        for each in (pack, Exact(20_480, None, 60))
    )
    shapes = {shape for plan in plans for shape in plan.shapes}
    assert padding(plans, lengths) < padding(exact, lengths) + 0.04
    assert len(shapes) <= 24
    rows = Counter((shape.source, shape.target) for shape in full_shapes(pack))
    assert set(rows.values()) == {1}  # the padded lengths decide the number of rows
    halved = {shape._replace(rows=shape.rows >> n) for shape in full_shapes(pack) for n in range(3)}
    assert shapes <= halved


def full_shapes(bounded: Bounded) -> list[Shape]:
    """The shapes of full batches."""
    return [Shape(bounded.capacity(level), *sides) for level, both in enumerate(bounded.sides) for sides in both]


def test_only_the_last_batch_of_a_window_lacks_rows() -> None:
    lengths = generate(8000)
    pack = Bounded(4096, None, 60, lengths)
    for epoch in range(5):
        plan = pack.pack(lengths, np.random.default_rng(epoch))
        lacking = [shape.rows - len(rows) for rows, shape in map(plan.batch, range(len(plan)))]
        assert sum(map(bool, lacking)) <= 1


def test_batches_are_shuffled_and_made_anew_with_other_random_numbers() -> None:
    lengths = generate(3000)
    pack = Exact(1000, None, 60)
    plans = [pack.pack(lengths, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    first, same, other = ([frozenset(plan.batch(n)[0].tolist()) for n in range(len(plan))] for plan in plans)
    assert first == same
    assert len(set(first) & set(other)) <= len(first) / 10
    steps = np.diff([lengths.longer()[[*rows]].max() for rows in first])
    assert (steps > 0).any() and (steps < 0).any()


def test_levels_are_the_best_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against all ways to cut few values, tried one by one."""
    monkeypatch.setattr(bucketing, "LEVELS", 3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        longer = rng.integers(1, 9, 30)

        def waste(levels: tuple[int, ...], longer: np.ndarray = longer) -> int:
            return sum(min(level for level in (*levels, longer.max()) if level >= x) for x in longer.tolist())

        best = min(waste(levels) for levels in product(range(1, 9), repeat=2))
        chosen = bucketing._choose_levels(longer)
        assert len(chosen) <= 3
        assert waste(tuple(chosen.tolist())) == best
