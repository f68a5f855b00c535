"""Running text: documents, the row of numbers on disk, and the segments that a language model learns from."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from full_disk import largest_file
from headway.data.batches import BatchSettings
from headway.data.documents import Amounts, Reading, Unit
from headway.data.order import Cursor
from headway.data.segments import InOrder, Segments, Shuffled, Size
from headway.data.tokens import Tokens, build_tokens, open_tokens
from headway.errors import DiskError, UsageError
from headway.text.tokenizer import Characters, Words
from headway.text.vocabulary import BOS, EOS, PAD

TEXT = "one two\nthree\n\nfour\n five six \n\n\nseven"


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def texts(path: Path, unit: Unit, whole: bool = False) -> list[tuple[str, int, bool]]:
    way = Reading(unit, whole)
    return [(line.text, line.number, line.begins) for line in way.joined(way.lines([path]))]


# ---------------------------------------------------------------- documents


def test_a_file_is_one_document_with_its_empty_lines(tmp_path: Path) -> None:
    found = texts(write(tmp_path / "a", TEXT), "file")
    assert [text for text, _, _ in found] == TEXT.split("\n")
    assert [number for _, number, begins in found if begins] == [1]


def test_paragraphs_and_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a", TEXT)
    assert [(text, begins) for text, _, begins in texts(path, "paragraph")] == [
        ("one two", True), ("three", False), ("four", True), (" five six ", False), ("seven", True),
    ]  # fmt: skip
    assert all(begins for _, _, begins in texts(path, "line"))
    assert [number for _, number, _ in texts(path, "line")] == [1, 2, 4, 5, 8]


def test_whole_documents_keep_the_ends_of_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a", TEXT)
    assert texts(path, "file", whole=True) == [(TEXT, 1, True)]
    assert [text for text, _, _ in texts(path, "paragraph", whole=True)] == [
        "one two\nthree",
        "four\n five six ",
        "seven",
    ]


def test_several_files_are_several_documents(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a", "x\ny\n"), tmp_path / "b.xz"]
    paths[1].write_bytes(lzma.compress(b"z\n"))
    assert [(line.text, line.file, line.begins) for line in Reading().lines(paths)] == [
        ("x", 0, True), ("y", 0, False), ("z", 1, True),
    ]  # fmt: skip


@pytest.mark.parametrize(("unit", "expected"), [("file", 4), ("paragraph", 2), ("line", 3)])
def test_the_end_of_the_text_is_held_out(tmp_path: Path, unit: Unit, expected: int) -> None:
    """At least a quarter of the characters; what is cut stays whole."""
    way, paths = Reading(unit), [write(tmp_path / "a", "aaa\nbbb\n\nccc\nddd\n\neee\n")]
    cut = way.split(paths, 0.25)
    train, dev = list(way.first(paths, cut)), list(way.after(paths, cut))
    assert len(train) == expected and dev[0].begins
    assert [line.text for line in [*train, *dev]] == [line.text for line in way.lines(paths)]


def test_a_single_line_is_not_cut(tmp_path: Path) -> None:
    way, paths = Reading(), [write(tmp_path / "a", "one line only")]
    assert way.split(paths, 0.5) == 1 and list(way.after(paths, 1)) == []


def test_empty_files_and_bad_bytes_say_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the file is empty"):
        list(Reading().lines([write(tmp_path / "a", "")]))
    (tmp_path / "b").write_bytes(b"good\n\xff\xfe\n")
    with pytest.raises(UsageError, match="b:2: not UTF-8"):
        list(Reading().lines([tmp_path / "b"]))
    assert [line.text for line in Reading(invalid="skip").lines([tmp_path / "b"])] == ["good"]


def test_counts_are_those_of_wc_and_of_wikitext(tmp_path: Path) -> None:
    """Words and characters of the file as it stands, and a word for each end of a line."""
    text = " = Title = \n \n Größe und Maß \n"
    way, tokenizer, amounts = Reading(), Words().learn([text]), Amounts()
    for block, rows in way.encoded(way.lines([write(tmp_path / "a", text)]), tokenizer):
        amounts.add(block, rows)
    assert amounts.lines == text.count("\n")
    assert amounts.words == len(text.split()) + text.count("\n") == amounts.tokens
    assert (amounts.characters, amounts.bytes) == (len(text), len(text.encode()))
    assert (amounts.documents, amounts.unknown) == (1, 0)


# ---------------------------------------------------------------- the row of numbers


def stored(folder: Path, text: str, unit: Unit = "file") -> Tokens:
    way, path = Reading(unit), write(folder / "text", text)
    tokenizer = Characters().learn([text.replace("\n", "")])
    return build_tokens(folder, "key", way, way.lines([path]), tokenizer, len(tokenizer))


def test_what_is_stored_is_the_text(tmp_path: Path) -> None:
    made = stored(tmp_path, TEXT, "paragraph")
    found = open_tokens(tmp_path, "key")
    assert found is not None and found.facts == made.facts
    assert [document.tolist() for document in found.documents()] == [d.tolist() for d in made.documents()]
    assert [document[0] for document in made.documents()] == [BOS] * 3
    assert sum((document == EOS).sum() for document in made.documents()) == 5
    assert open_tokens(tmp_path, "another") is None


def test_a_full_disk_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    way, tokenizer = Reading("file"), Characters().learn(["abc"])
    text = write(tmp_path / "text", "abc\n" * 10_000)
    with largest_file(10_000), pytest.raises(DiskError) as caught:
        build_tokens(tmp_path / "cache", "key", way, way.lines([text]), tokenizer, len(tokenizer))
    assert re.fullmatch(
        rf"cannot write {tmp_path}/cache: .* \([\d,]+ bytes are needed\); free some space.*", str(caught.value)
    )
    assert not list((tmp_path / "cache").iterdir())


def test_a_token_knows_its_line(tmp_path: Path) -> None:
    made = stored(tmp_path, "abc\nde\n\nf\n")
    places = [made.place(token) for token in range(len(made))]
    assert [line for _, line in places] == [1] * 5 + [2] * 3 + [3] + [4] * 2


def test_a_damaged_store_is_not_opened(tmp_path: Path) -> None:
    stored(tmp_path, TEXT)
    ids = next(tmp_path.glob("*/ids"))
    ids.write_bytes(ids.read_bytes()[:-1])
    assert open_tokens(tmp_path, "key") is None


# ---------------------------------------------------------------- segments


STREAMS = (Shuffled, InOrder, partial(InOrder, turns=2))


def in_turns(stream: Callable[..., Shuffled | InOrder], reader: Shuffled | InOrder) -> bool:
    return not isinstance(stream, partial) or (isinstance(reader, InOrder) and reader.turns == 2)


def letters(folder: Path, count: int) -> Tokens:
    """A text of so many tokens, all different but for the ends of lines."""
    text = "".join(chr(0x4E00 + i) for i in range(count - 2))
    made = stored(folder, text)
    assert len(made) == count
    return made


@pytest.mark.parametrize("stream", STREAMS)
@given(count=st.integers(3, 90), segment=st.integers(1, 30), tokens=st.integers(1, 60), seed=st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_an_epoch_sees_every_token_once(
    tmp_path_factory: pytest.TempPathFactory,
    stream: Callable[..., Shuffled | InOrder],
    count: int,
    segment: int,
    tokens: int,
    seed: int,
) -> None:
    """All but a rest shorter than a segment (or than the number of rows), which is another one in each epoch."""
    text = letters(tmp_path_factory.mktemp("text"), count)
    size = Size.of(text, segment, BatchSettings(tokens=tokens))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.data.segments.LEAST", 1)
        reader = stream(text, size, seed)
    batches = [batch for batch in islice(reader.iterate(Cursor(1)), reader.count(1))]
    seen = np.concatenate([batch.inputs.flatten().numpy() for batch in batches])
    rest = len(reader.rows) * reader.turns if isinstance(reader, InOrder) else size.length
    assert len(np.unique(seen)) == len(seen) > count - rest
    assert [batch.cursor.epoch for batch in batches] == [1] * (len(batches) - 1) + [2]
    assert reader.passed(batches[-1].cursor) == 2.0
    assert all(len(batch.inputs) * batch.inputs.size(1) <= max(tokens, size.length) for batch in batches)


def test_labels_are_the_next_tokens_and_no_beginnings(tmp_path: Path) -> None:
    text = stored(tmp_path, "ab\ncd\n", "line")
    batch = Segments.read(text, np.array([0, 4]), 4, Cursor(), ())
    first, second = (document.tolist() for document in text.documents())
    assert batch.inputs.tolist() == [first, second]
    assert batch.labels.tolist() == [[*first[1:], PAD], [*second[1:], PAD]]
    assert batch.tokens == 6


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.usefixtures("short_rows")
def test_any_cursor_goes_on_with_the_same_batches(tmp_path: Path, stream: Callable[..., Shuffled | InOrder]) -> None:
    text = letters(tmp_path, 70)
    reader = stream(text, Size.of(text, 8, BatchSettings(tokens=24)), seed=3)
    assert in_turns(stream, reader)
    whole = list(islice(reader.iterate(Cursor()), 12))
    for number in (0, 2, 5, 10):
        again = next(reader.iterate(whole[number].cursor))
        expected = whole[number + 1]
        assert again.cursor == expected.cursor
        for ours, theirs in zip(again.tensors(), expected.tensors(), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.usefixtures("short_rows")
def test_ranks_share_the_text(tmp_path: Path, stream: Callable[..., Shuffled | InOrder]) -> None:
    text = letters(tmp_path, 97)
    size = Size.of(text, 8, BatchSettings(tokens=16))
    readers = [stream(text, size, 5, rank, 2) for rank in range(2)]
    assert in_turns(stream, readers[0])
    steps = readers[0].count(0) // 2
    batches = [batch for reader in readers for batch in islice(reader.iterate(Cursor()), steps)]
    seen = np.concatenate([batch.inputs.flatten().numpy() for batch in batches])
    assert len(np.unique(seen)) == len(seen) > 97 - 3 * 8
    cursors = [[batch.cursor for batch in islice(reader.iterate(Cursor()), steps + 2)] for reader in readers]
    assert cursors[0] == cursors[1]


def test_rows_go_on_where_they_stopped(tmp_path: Path) -> None:
    text = letters(tmp_path, 64)
    reader = InOrder(text, Size.of(text, 5, BatchSettings(tokens=15)), seed=1)
    batches = list(islice(reader.iterate(Cursor()), reader.count(0) + 1))
    for before, after in zip(batches[:-1], batches[1:-1], strict=False):
        assert torch.equal(before.labels[:, -1], after.inputs[:, 0].masked_fill(after.inputs[:, 0] == BOS, PAD))
    fresh = [batch.tensors()[3] for batch in batches]
    assert fresh[0].all() and not torch.stack(fresh[1:-1]).any() and fresh[-1].all()


def test_rows_take_turns(tmp_path: Path) -> None:
    """Neighbouring batches read different rows; every row goes on at its next turn, in its own place of the memory."""
    text = letters(tmp_path, 201)
    reader = InOrder(text, Size.of(text, 2, BatchSettings(tokens=6)), seed=1, turns=5)
    assert (reader.turns, reader.long, reader.count(0)) == (2, 33, 2 * 17), "rows of at least 16 segments"
    batches = list(islice(reader.iterate(Cursor()), reader.count(0)))
    assert [batch.tensors()[2].tolist() for batch in batches[:3]] == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    assert [bool(batch.tensors()[3].all()) for batch in batches] == [True] * 2 + [False] * 32
    for one, two in zip(batches, batches[2:], strict=False):
        assert ((two.indices - one.indices) % len(text) == 2).all()


def test_shuffled_segments_change_with_the_epoch_and_the_seed(tmp_path: Path) -> None:
    text = letters(tmp_path, 90)
    size = Size.of(text, 9, BatchSettings(tokens=90))
    orders = [next(Shuffled(text, size, seed).iterate(Cursor(epoch))).indices for seed in (1, 2) for epoch in (0, 1)]
    assert len({tuple(order.tolist()) for order in orders}) == 4


def test_a_text_shorter_than_a_segment_is_one_segment(tmp_path: Path) -> None:
    text = stored(tmp_path, "abc\n")
    batch = next(Shuffled(text, Size.of(text, 100, BatchSettings(tokens=4096)), 0).iterate(Cursor()))
    assert batch.inputs.shape == (1, 5) and batch.tokens == 4


def test_halves_are_the_whole(tmp_path: Path) -> None:
    text = letters(tmp_path, 50)
    batch = next(InOrder(text, Size.of(text, 5, BatchSettings(tokens=25)), seed=0).iterate(Cursor()))
    first, second = batch.split()
    assert first.tokens + second.tokens == batch.tokens
    for one, two, both in zip(first.tensors(), second.tensors(), batch.tensors(), strict=True):
        assert torch.equal(torch.cat([one, two]), both)
