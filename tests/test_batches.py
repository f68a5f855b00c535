"""Batches: right tensors, and an order that can be resumed, shared between ranks and varied without being lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from headway import config
from headway.data import order as orders
from headway.data import store as stores
from headway.data.batches import Batch, Batches, BatchSettings
from headway.data.bucketing import Bounded, Shape
from headway.data.corpus import Pair
from headway.data.order import Cursor
from headway.data.prefetch import Prefetch
from headway.data.store import Store
from headway.errors import UsageError
from headway.text.vocabulary import BOS, EOS, PAD

SIZE = 1000


class Numbers:
    """Texts are numbers already."""

    tags = {"de": 4}

    def __len__(self) -> int:
        return SIZE

    def encode_many(self, texts: list[str]) -> list[list[int]]:
        return [[int(number) for number in text.split()] for text in texts]


def make_pairs(counts: Sequence[int], longest: int = 40) -> list[Pair]:
    rng = np.random.default_rng(sum(counts))

    def text(size: int) -> str:
        return " ".join(map(str, rng.integers(10, SIZE // 2, size)))

    pairs = []
    for corpus, count in enumerate(counts):
        sources = rng.integers(1, longest, count)
        targets = (sources + rng.integers(-3, 4, count)).clip(1, longest)
        pairs += [
            Pair(text(s), text(t), "de", corpus, i + 1) for i, (s, t) in enumerate(zip(sources, targets, strict=True))
        ]
    return pairs


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return make_pairs([300, 50])


@pytest.fixture(scope="module")
def store(pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory) -> Store:
    return stores.build(tmp_path_factory.mktemp("cache"), "key", pairs, Numbers(), Numbers(), 100)


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four windows an epoch."""
    monkeypatch.setattr(orders, "WINDOW_EXAMPLES", 100)


EXACT = BatchSettings(tokens=200)
BOUNDED = BatchSettings(tokens=400, shapes="bounded")
BOTH = pytest.mark.parametrize("settings", [EXACT, BOUNDED], ids=["exact", "bounded"])


def first(batches: Batches, count: int, cursor: Cursor = Cursor()) -> list[Batch]:
    """The next few; the iterator is ended, and with it the thread that makes windows."""
    with closing(batches.iterate(cursor)) as iterator:
        return list(islice(iterator, count))


def same(one: Batch, other: Batch) -> bool:
    tensors = all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("source", "inputs", "labels"))
    return tensors and (one.indices == other.indices).all() and one.cursor == other.cursor


def real(batches: list[Batch]) -> list[int]:
    return [int(index) for batch in batches for index in batch.indices if index >= 0]


# ---------------------------------------------------------------- tensors


@BOTH
def test_a_batch_holds_what_a_slow_loop_would_put_there(
    store: Store, pairs: list[Pair], settings: BatchSettings
) -> None:
    for batch in first(Batches(store, settings, seed=1), 60):
        rows, s, t = batch.shape
        source, inputs, labels = (torch.full((rows, width), PAD) for width in (s, t, t))
        for row, index in enumerate(batch.indices):
            pair = pairs[index] if index >= 0 else Pair("", "", "", 0, 0)
            ids, target = ([int(number) for number in text.split()] for text in (pair.source, pair.target))
            ids = [4, *ids, EOS] if index >= 0 else [EOS]
            source[row, : len(ids)] = torch.tensor(ids)
            inputs[row, : len(target) + 1] = torch.tensor([BOS, *target])
            if index >= 0:
                labels[row, : len(target) + 1] = torch.tensor([*target, EOS])
        assert torch.equal(batch.source, source)
        assert torch.equal(batch.inputs, inputs)
        assert torch.equal(batch.labels, labels)
        assert batch.source.dtype == batch.inputs.dtype == batch.labels.dtype == torch.int64
        assert batch.tokens == int((labels != PAD).sum())
        assert batch.source_tokens == int((source[torch.from_numpy(batch.indices >= 0)] != PAD).sum())
        assert rows * max(s, t) <= settings.tokens


def test_dummy_rows_fill_the_last_batch_only(store: Store) -> None:
    batches = Batches(store, BOUNDED, seed=1)
    epoch = first(batches, batches.count(0))
    dummies = [batch for batch in epoch if (batch.indices < 0).any()]
    assert len(dummies) == 1
    empty = torch.from_numpy(dummies[0].indices < 0)
    assert (dummies[0].source[empty, 0] == EOS).all()
    assert (dummies[0].source[empty, 1:] == PAD).all()
    assert (dummies[0].inputs[empty, 0] == BOS).all()
    assert (dummies[0].labels[empty] == PAD).all()
    for batch in epoch:
        assert ((batch.source != PAD).any(dim=1) & (batch.inputs != PAD).any(dim=1)).all()


def test_halves_make_the_whole(store: Store) -> None:
    for batch in first(Batches(store, BOUNDED, seed=1), 30):
        left, right = batch.split()
        for name in ("source", "inputs", "labels"):
            assert torch.equal(torch.cat([getattr(left, name), getattr(right, name)]), getattr(batch, name))
        assert [*left.indices, *right.indices] == [*batch.indices]
        assert left.tokens + right.tokens == batch.tokens
        assert left.source_tokens + right.source_tokens == batch.source_tokens
        assert left.cursor == right.cursor == batch.cursor
        while len(left.source) > 1:
            left = left.split()[0]
        with pytest.raises(ValueError, match="one sentence"):
            left.split()


def test_a_batch_moves_as_a_whole(store: Store) -> None:
    batch = first(Batches(store, EXACT, seed=1), 1)[0]
    moved = batch.to("meta", non_blocking=True)
    assert {moved.source.device.type, moved.inputs.device.type, moved.labels.device.type} == {"meta"}
    assert moved.shape == batch.shape
    assert moved.tokens == batch.tokens


# ---------------------------------------------------------------- order


@BOTH
def test_every_example_once_an_epoch(store: Store, settings: BatchSettings, small_windows: None) -> None:
    batches = Batches(store, settings, seed=3)
    epochs: dict[int, list[Batch]] = {}
    before = Cursor()
    for batch in first(batches, 400):
        epochs.setdefault(before.epoch, []).append(batch)
        before = batch.cursor
    complete = [epochs[epoch] for epoch in range(before.epoch)]
    assert len(complete) >= 3
    for epoch in complete:
        assert sorted(real(epoch)) == [*range(len(store))]
    assert real(complete[0]) != real(complete[1])


def test_the_same_seed_gives_the_same_batches_and_another_others(store: Store) -> None:
    runs = [first(Batches(store, EXACT, seed), 60) for seed in (5, 5, 6)]
    assert all(map(same, runs[0], runs[1]))
    assert real(runs[0]) != real(runs[2])


@BOTH
def test_seeking_is_the_same_as_going_there(store: Store, settings: BatchSettings, small_windows: None) -> None:
    batches = Batches(store, settings, seed=3)
    whole = first(batches, 250)
    for start in np.random.default_rng(0).integers(0, 240, 12):
        assert all(map(same, first(batches, 9, whole[start].cursor), whole[start + 1 : start + 10]))


def test_cursors_count_batches_windows_and_epochs(store: Store, small_windows: None) -> None:
    batches = Batches(store, EXACT, seed=3)
    whole = first(batches, 200)
    cursors = [batch.cursor for batch in whole]
    assert cursors == sorted(set(cursors))
    for before, after in zip([Cursor(), *cursors], cursors, strict=False):
        epoch, window, number = astuple(before)
        assert after in (Cursor(epoch, window, number + 1), Cursor(epoch, window + 1), Cursor(epoch + 1))
    assert {cursor.window for cursor in cursors} == {0, 1, 2, 3}
    assert cursors[-1].epoch >= 1


def test_a_cursor_past_the_end_of_a_window_means_the_next(store: Store, small_windows: None) -> None:
    batches = Batches(store, EXACT, seed=3)
    beginning = first(batches, 1, Cursor(0, 1))[0]
    assert same(first(batches, 1, Cursor(0, 0, 10_000))[0], beginning)
    assert same(first(batches, 1, Cursor(0, 99))[0], first(batches, 1, Cursor(1))[0])


@BOTH
@pytest.mark.parametrize("world", [2, 3, 7])
def test_ranks_share_the_order_of_one(store: Store, settings: BatchSettings, world: int, small_windows: None) -> None:
    """Steps that begin in one window and end in the next are among them: 7 does not divide every window."""
    alone = first(Batches(store, settings, seed=3), 20 * world)
    ranks = [first(Batches(store, settings, 3, rank, world), 20) for rank in range(world)]
    for number, batch in enumerate(alone):
        step, rank = divmod(number, world)
        assert torch.equal(ranks[rank][step].source, batch.source)
        assert torch.equal(ranks[rank][step].labels, batch.labels)
    for step in range(20):
        assert {rank[step].cursor for rank in ranks} == {alone[(step + 1) * world - 1].cursor}


def test_a_run_goes_on_with_another_number_of_ranks(store: Store, small_windows: None) -> None:
    alone = first(Batches(store, EXACT, seed=3), 60)
    stop = first(Batches(store, EXACT, 3, rank=1, world=3), 5)[-1].cursor  # 15 batches were seen
    ranks = [first(Batches(store, EXACT, 3, rank, 2), 10, stop) for rank in range(2)]
    mixed = [batch for step in zip(*ranks, strict=True) for batch in step]
    assert [real([batch]) for batch in mixed] == [real([batch]) for batch in alone[15:35]]
    with pytest.raises(ValueError, match="rank 2 of 2"):
        Batches(store, EXACT, seed=1, rank=2, world=2)


@BOTH
def test_batches_of_an_epoch_are_counted(store: Store, settings: BatchSettings) -> None:
    batches = Batches(store, settings, seed=3)
    for epoch in range(3):
        exact = batches.count(epoch)
        assert first(batches, exact, Cursor(epoch))[-1].cursor == Cursor(epoch + 1)


def test_batches_of_many_windows_are_estimated(store: Store, small_windows: None) -> None:
    batches = Batches(store, EXACT, seed=3)
    cursors = [batch.cursor for batch in first(batches, 200)]
    assert abs(batches.count(0) / (cursors.index(Cursor(1)) + 1) - 1) < 0.15


def test_bounded_shapes_are_few_and_known(store: Store, small_windows: None) -> None:
    batches = Batches(store, BOUNDED, seed=3)
    bounded = batches.packing
    assert isinstance(bounded, Bounded)
    known = [Shape(bounded.capacity(level), *sides) for level, both in enumerate(bounded.sides) for sides in both]
    seen = Counter(batch.shape for batch in first(batches, 300))
    assert len(known) <= 32
    assert sum(count for shape, count in seen.items() if shape in known) >= 0.8 * 300
    assert {shape[1:] for shape in seen} <= {shape[1:] for shape in known}


# ---------------------------------------------------------------- weights


def test_weights_repeat_a_corpus(store: Store) -> None:
    batches = Batches(store, EXACT, seed=3, weights=[0.5, 3.0])
    seen = Counter(real(first(batches, batches.count(0))))
    assert sum(seen[index] for index in range(300)) == 150
    assert {seen[index] for index in range(300)} == {0, 1}
    assert {seen[index] for index in range(300, 350)} == {3}
    both = seen + Counter(real(first(batches, batches.count(1), Cursor(1))))
    assert {both[index] for index in range(300)} == {1}


def test_a_corpus_that_lost_all_its_pairs_needs_a_weight_but_no_examples(store: Store) -> None:
    batches = Batches(store, EXACT, seed=3, weights=[1.0, 1.0, 5.0])
    assert sorted(real(first(batches, batches.count(0)))) == [*range(350)]
    with pytest.raises(UsageError, match="2 corpora need as many weights"):
        Batches(store, EXACT, seed=3, weights=[1.0])


# ---------------------------------------------------------------- resampling


class Halve:
    """Now and then cuts a number below 500 into two above: `n` becomes `500 + n // 2` and `999 - n // 2`."""

    def __call__(
        self, flat: np.ndarray, offsets: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        cut = (flat >= 10) & (flat < SIZE // 2) & (rng.random(len(flat)) < 0.3)
        places = np.repeat(np.arange(len(flat)), 1 + cut)
        second = np.concatenate(([False], places[1:] == places[:-1]))
        half = flat[places] // 2
        new = np.where(second, 999 - half, np.where(cut[places], 500 + half, flat[places]))
        return new.astype(flat.dtype), np.concatenate(([0], np.cumsum(1 + cut)))[offsets]


def mend(ids: list[int]) -> list[int]:
    return [number // 2 * 2 if number < 500 else (number - 500) * 2 for number in ids if number < 750 and number > 9]


@BOTH
def test_resampled_text_is_the_same_text(
    store: Store, pairs: list[Pair], settings: BatchSettings, small_windows: None
) -> None:
    batches = Batches(store, settings, seed=3, resample=(Halve(), Halve()))
    whole = first(batches, 150)
    changed = longer = 0
    for batch in whole:
        assert batch.shape.rows * max(batch.shape[1:]) <= settings.tokens
        for row, index in enumerate(batch.indices):
            if index < 0:
                continue
            pair = pairs[index]
            for text, tensor in ((pair.source, batch.source), (pair.target, batch.labels)):
                canonical = [int(number) for number in text.split()]
                assert mend(tensor[row].tolist()) == mend(canonical)
                size = int((tensor[row] > 9).sum())
                changed += size != len(canonical)
                longer = max(longer, size)
    assert changed > 1000
    assert longer <= 40  # what would be longer than any sentence of the corpus stays as it was
    assert all(map(same, first(batches, 20, whole[70].cursor), whole[71:91]))


def test_pieces_change_with_epoch_and_seed(store: Store) -> None:
    def text(seed: int, epoch: int) -> dict[int, list[int]]:
        batches = Batches(store, EXACT, seed, resample=(Halve(), Halve()))
        seen = first(batches, batches.count(epoch), Cursor(epoch))
        rows = [row for batch in seen for row in zip(batch.indices.tolist(), batch.source.tolist(), strict=True)]
        return {index: [number for number in row if number != PAD] for index, row in rows}

    one = text(1, 0)
    assert text(1, 0) == one
    for other in (text(1, 1), text(2, 0)):
        assert sum(one[index] != other[index] for index in other) > 200


# ---------------------------------------------------------------- ahead


def test_the_next_window_is_made_while_this_one_is_used(
    store: Store, small_windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Cursor] = []
    make = Batches._window

    def watched(self: Batches, cursor: Cursor):
        window = make(self, cursor)
        made.append(cursor)
        return window

    monkeypatch.setattr(Batches, "_window", watched)
    iterator = Batches(store, EXACT, seed=3).iterate(Cursor(0, 2))
    next(iterator)
    deadline = time.monotonic() + 5
    while len(made) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert made == [Cursor(0, 2), Cursor(0, 3)]
    iterator.close()


def test_prefetched_batches_are_the_same_and_no_thread_stays(store: Store, small_windows: None) -> None:
    before = set(threading.enumerate())
    batches = Batches(store, EXACT, seed=3)
    plain = first(batches, 100)
    with Prefetch(batches.iterate(Cursor()), 4, pin=False) as ahead:
        assert all(map(same, islice(ahead, 100), plain))
    assert set(threading.enumerate()) <= before


# ---------------------------------------------------------------- settings


def test_settings_are_checked_and_documented() -> None:
    with pytest.raises(UsageError, match="tokens is 0: it must be 1 or more"):
        config.from_dict(BatchSettings, {"tokens": 0})
    with pytest.raises(UsageError, match="sentences is 0"):
        config.from_dict(BatchSettings, {"sentences": 0})
    with pytest.raises(UsageError, match="shapes"):
        config.from_dict(BatchSettings, {"shapes": "round"})
    assert config.from_dict(BatchSettings, {"tokens": 9, "shapes": "bounded"}) == BatchSettings(9, None, "bounded")
    assert "padding included" in config.dump(BatchSettings())


def test_a_limit_on_sentences(store: Store) -> None:
    for shapes in ("exact", "bounded"):
        batches = Batches(store, BatchSettings(tokens=400, sentences=5, shapes=shapes), seed=1)
        assert {batch.shape.rows for batch in first(batches, 100)} <= {1, 2, 3, 4, 5}


def test_a_budget_below_the_longest_sentence_is_refused(store: Store) -> None:
    longest = max(store.facts.longest[0], store.facts.longest[1] + 1)
    first(Batches(store, BatchSettings(tokens=longest), seed=1), 1)
    with pytest.raises(UsageError, match=f"cannot hold the longest sentence of {longest} tokens"):
        Batches(store, BatchSettings(tokens=longest - 1), seed=1)


def test_nothing_to_train_on_is_said(tmp_path: Path) -> None:
    empty = stores.build(tmp_path, "key", [], Numbers(), Numbers(), 100)
    with pytest.raises(UsageError, match="nothing to train on: no examples"):
        Batches(empty, EXACT, seed=1)
