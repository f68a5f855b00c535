"""Pairs are read in order, filtered, counted and split; nothing is lost unnoticed."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headway import config
from headway.data.archives import open_bytes
from headway.data.corpus import Corpus, Data, Pair, content_key, dev_pairs, pairs, train_pairs
from headway.data.counts import Counts
from headway.data.filters import Duplicate, Longest, Seen, Uneven, identical
from headway.data.formats import Invalid, Names, count_lines, jsonl, lines, parallel, tsv
from headway.data.heldout import HeldOut, hold_out, is_held_out
from headway.errors import UsageError

any_file = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(path: Path, rows: list[str]) -> str:
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8", newline="\n")
    return str(path)


def two_files(folder: Path, rows: list[tuple[str, str]], name: str = "train") -> Data:
    source = write(folder / f"{name}.src", [row[0] for row in rows])
    return Data(source=source, target=write(folder / f"{name}.tgt", [row[1] for row in rows]))


def many(count: int) -> list[tuple[str, str]]:
    return [(f"source sentence {number}", f"target sentence {number}") for number in range(count)]


# ---------------------------------------------------------------- settings


def test_data_goes_through_toml(tmp_path: Path) -> None:
    data = Data("a.en", "a.de", corpora=(Corpus("b.tsv", weight=2.0, tag="fr"),), ratio=0.0, drop_duplicates=True)
    path = tmp_path / "data.toml"
    path.write_text(config.dump(data))
    assert config.load(Data, path) == data
    assert "# " in config.dump(data)


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ({"ratio": 0.5}, "ratio is 0.5"),
        ({"longest": 0}, "longest must be 1 or more"),
        ({"dev_sentences": -1}, "dev_sentences 0 or more"),
        ({"target": "a.de"}, "target is set but source is not"),
        ({"dev_target": "a.de"}, "dev_target is set but dev_source is not"),
        ({"corpora": [{"source": "a.tsv", "weight": 0}]}, "must be above 0"),
        ({"corpora": [{"source": ""}]}, "corpus without a source"),
        ({"invalid": "ignore"}, "invalid is 'ignore'"),
        ({"sauce": "a.en"}, "did you mean source"),
    ],
)
def test_wrong_settings_are_told(table: dict[str, object], wanted: str) -> None:
    with pytest.raises(UsageError, match=wanted):
        config.from_dict(Data, table)


def test_no_data_is_told() -> None:
    with pytest.raises(UsageError, match="no training data: set data.source and data.target"):
        list(pairs(Data(), Counts()))


# ---------------------------------------------------------------- reading


def test_pairs_keep_order_place_and_tag(tmp_path: Path) -> None:
    first = two_files(tmp_path, [("a", "b"), ("", "x"), ("c", "d")])
    table = write(tmp_path / "more.tsv", ["e\tf"])
    data = replace(first, corpora=(Corpus(table, tag="fr"),))
    assert list(pairs(data, Counts())) == [
        Pair("a", "b", "", 0, 1),
        Pair("c", "d", "", 0, 3),
        Pair("e", "f", "fr", 1, 1),
    ]


def test_corpora_choose_their_own_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [json.dumps({"translation": {"en": "one", "de": "eins", "fr": "un"}})])
    german = Corpus(path, tag="de", target_language="de")
    data = Data(corpora=(german, replace(german, tag="fr", target_language="fr")), source_language="en")
    assert [(pair.target, pair.tag) for pair in pairs(data, Counts())] == [("eins", "de"), ("un", "fr")]


def test_a_pair_is_kept_or_dropped_whole(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"1\n\xff\n3\n4\n")
    target.write_bytes(b"1\n2\n\xff\n4\n")
    data = Data(str(source), str(target), invalid="skip")
    assert [(pair.source, pair.target, pair.line) for pair in pairs(data, Counts())] == [("1", "1", 1), ("4", "4", 4)]


def test_reading_is_lazy(tmp_path: Path) -> None:
    """The first pair comes before the fault on the last line is met."""
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"good\n" * 9 + b"\xff\n")
    target.write_bytes(b"good\n" * 10)
    stream = pairs(Data(str(source), str(target)), Counts())
    assert next(stream).source == "good"
    with pytest.raises(UsageError, match=r":10: not UTF-8"):
        list(stream)


READ = """
import sys
from headway.data.corpus import Counts, Data, pairs
for pair in pairs(Data(*sys.argv[1:]), Counts()):
    pass
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to ask")
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    peaks = []
    for count in (1_000, 100_000):
        data = two_files(tmp_path, many(count))
        peaks.append(int(subprocess.check_output([sys.executable, "-c", READ, data.source, data.target])))
    assert peaks[1] < peaks[0] + 4_000  # KiB


# ---------------------------------------------------------------- filters and counts

short = st.text(st.sampled_from("ab \u00e4\U0001f600"), max_size=8)


@given(rows=st.lists(st.tuples(short, short), min_size=1, max_size=30))
@any_file
def test_counts_add_up_and_filters_agree_with_plain_python(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    data = replace(two_files(tmp_path, rows), drop_duplicates=True, drop_identical=True)
    wanted, dropped, seen = [], Counter[str](), set()
    for line, (source, target) in enumerate(rows, 1):
        if not source.strip() or not target.strip():
            dropped["empty"] += 1
        elif source.strip() == target.strip():
            dropped["identical on both sides"] += 1
        elif (source, target) in seen:
            dropped["duplicate"] += 1
        else:
            wanted.append(Pair(source, target, "", 0, line))
            seen.add((source, target))
    counts = Counts()
    try:
        assert list(pairs(data, counts)) == wanted
    except UsageError as error:
        assert not wanted
        assert "no usable pair" in str(error)
    assert counts.dropped == dropped
    assert counts.read == len(rows) == counts.kept + sum(counts.dropped.values())


def test_filters_at_their_limits() -> None:
    assert Longest(3)("abc", "a") is None
    assert Longest(3)("a", "abcd") == "longer than 3 characters"
    assert Uneven(2.0)("x" * 20, "y" * 40) is None
    assert Uneven(2.0)("y" * 41, "x" * 20) == "over 2 times longer on one side"
    assert Uneven(2.0)("no", "y" * 20) is None  # a short side counts as ten characters
    assert identical(" a", "a ") is not None
    same = Duplicate()
    assert [same("a", "b\nc"), same("a\nb", "c")] == [None, "duplicate"]  # lines hold no line ends: never met


def test_default_filters_leave_usual_pairs_alone(tmp_path: Path) -> None:
    rows = [("Yes.", "Da bin ich ganz deiner Meinung, mein lieber Freund."), ("Tom", "Tom"), ("a", "a"), ("a", "a")]
    counts = Counts()
    assert len(list(pairs(two_files(tmp_path, rows), counts))) == 4
    assert counts.summary() == "4 pairs read, 4 kept, 0 dropped"


def test_summary_names_reasons_and_places(tmp_path: Path) -> None:
    data = two_files(tmp_path, [("a", "b"), *[("", "b")] * 7, ("c" * 6000, "d"), ("e" * 150, "f")])
    counts = Counts()
    list(pairs(data, counts))
    places = ", ".join(f"{data.source}:{line}" for line in (2, 3, 4, 5, 6))
    assert counts.summary() == (
        f"10 pairs read, 1 kept, 9 dropped: 7 empty ({places}, ...), 1 longer than 5,000 characters ({data.source}:9), "
        f"1 over 12 times longer on one side ({data.source}:10)"
    )
    assert json.loads(json.dumps(counts.to_json()))["dropped"]["empty"] == 7


@given(numbers=st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 50), max_size=60))
@example(numbers=list(range(3000)) * 2)
@settings(deadline=None)
def test_seen_is_a_set(numbers: list[int]) -> None:
    seen, oracle = Seen(), set[int]()
    for number in numbers:
        key = number or 1
        assert seen.add(number) == (key in oracle)
        oracle.add(key)
    assert seen.count == len(oracle)


def test_seen_takes_few_bytes() -> None:
    rng = random.Random(0)
    seen = Seen()
    for _ in range(10_000):
        seen.add(rng.getrandbits(64))
    assert 10 <= len(seen.slots) * 8 / seen.count <= 22


# ---------------------------------------------------------------- the split


@given(st.lists(st.integers(0, 300), max_size=400), st.integers(0, 40), st.integers(-9, 9))
@settings(deadline=None)
def test_held_out_sources_are_apart(numbers: list[int], most: int, seed: int) -> None:
    examples = [Pair(f"Sentence {number}", str(place), "", 0, place) for place, number in enumerate(numbers)]
    held = hold_out(examples, seed, most)
    assert len(held.examples) <= min(most, len(examples) // 20)
    assert set(held.examples) == {e for e in examples if is_held_out(seed, e.source, held.limit)}


def test_a_split_is_exact_when_sources_differ(tmp_path: Path) -> None:
    data = replace(two_files(tmp_path, many(1000)), dev_sentences=30)
    counts = Counts()
    train, dev = list(train_pairs(data, 1, counts)), dev_pairs(data, 1)
    assert (len(train), len(dev)) == (970, 30)
    assert (counts.read, counts.kept, counts.held_out) == (1000, 970, 30)
    assert sorted(train + dev, key=lambda pair: pair.line) == list(pairs(data, Counts()))
    assert dev == dev_pairs(data, 1) != dev_pairs(data, 2)
    assert "30 held out for validation" in counts.summary()


def test_a_split_depends_on_content_not_on_place(tmp_path: Path) -> None:
    rows = many(1000)
    shuffled = random.Random(0).sample(rows, len(rows))
    once, again = (dev_pairs(two_files(tmp_path, order), 5) for order in (rows, shuffled))
    assert len(once) == 50
    assert {pair.source for pair in once} == {pair.source for pair in again}


def test_all_translations_of_a_source_stay_together(tmp_path: Path) -> None:
    rows = [
        (source.upper() if number % 3 else source, f"{target} {number}")
        for number in range(3)
        for source, target in many(500)
    ]
    data = two_files(tmp_path, rows)
    train = {pair.source.casefold() for pair in train_pairs(data, 3, Counts())}
    dev = [pair.source.casefold() for pair in dev_pairs(data, 3)]
    assert dev
    assert not train & set(dev)
    assert all(dev.count(source) == 3 for source in dev)


@pytest.mark.parametrize(("count", "held"), [(1, 0), (19, 0), (20, 1), (39, 1), (40, 2)])
def test_small_corpora_hold_little_out(tmp_path: Path, count: int, held: int) -> None:
    data = two_files(tmp_path, many(count))
    assert len(dev_pairs(data, 0)) == held
    assert len(list(train_pairs(data, 0, Counts()))) == count - held


def test_one_sentence_again_and_again_is_never_all_held_out(tmp_path: Path) -> None:
    data = two_files(tmp_path, [("a", "b")] * 100)
    assert dev_pairs(data, 0) == []
    assert len(list(train_pairs(data, 0, Counts()))) == 100


def test_dev_files_are_used_as_they_are(tmp_path: Path) -> None:
    dev = two_files(tmp_path, [("x", "y" * 500), ("", "z"), ("same", "same")], "dev")
    data = replace(two_files(tmp_path, many(100)), dev_source=dev.source, dev_target=dev.target, drop_identical=True)
    assert [pair.line for pair in dev_pairs(data, 0)] == [1, 3]
    assert len(list(train_pairs(data, 0, Counts()))) == 100


def test_a_changed_file_changes_the_split(tmp_path: Path) -> None:
    data = two_files(tmp_path, many(100))
    before = dev_pairs(data, 0)
    changed = two_files(tmp_path, [(f"other {source}", target) for source, target in many(100)])
    assert changed == data
    assert dev_pairs(data, 0) != before


def test_held_out_is_a_plain_tuple() -> None:
    assert hold_out(list[Pair](), 0, 10) == HeldOut(-1, ())


# ---------------------------------------------------------------- the key of a cache


def test_the_key_follows_content_and_filters_only(tmp_path: Path) -> None:
    data = two_files(tmp_path, many(10))
    key = content_key(data)
    assert key == content_key(data) == content_key(two_files(tmp_path, many(10), "renamed"))
    table = Corpus(write(tmp_path / "a.tsv", ["a\tb"]))
    others = [
        two_files(tmp_path, many(11), "longer"),
        replace(data, source=data.target, target=data.source),
        replace(data, ratio=3.0),
        replace(data, drop_duplicates=True),
        replace(data, invalid="skip"),
        replace(data, dev_sentences=7),
        replace(data, dev_source=data.source, dev_target=data.target),
        replace(data, corpora=(table,)),
        replace(data, corpora=(replace(table, tag="de"),)),
        replace(data, corpora=(replace(table, source_field="2", target_field="1"),)),
    ]
    keys = [content_key(other) for other in others]
    assert len({key, *keys}) == 1 + len(keys)
    assert content_key(replace(data, corpora=(replace(table, weight=3.0),))) == keys[7]  # weights change no pair


# ---------------------------------------------------------------- any bytes at all

pieces = st.sampled_from(
    [b"\n", b"\r", b"\t", b"\xff", b"\xe2\x80\xa8", b"\0", b"word", b"\xc3\xa4", b'{"source":', b'"a"', b"}"]
)
any_bytes = st.binary(max_size=60) | st.lists(pieces, max_size=25).map(b"".join)


@given(content=any_bytes, invalid=st.sampled_from(["error", "skip", "replace"]))
@any_file
def test_any_bytes_as_lines(tmp_path: Path, content: bytes, invalid: Invalid) -> None:
    path = tmp_path / "any"
    path.write_bytes(content)
    try:
        read = list(lines(path, invalid))
    except UsageError as error:
        assert "\n" not in str(error)
        return
    wanted = content.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")
    assert [line.number for line in read] == list(range(1, len(wanted) + 1))
    assert count_lines(path) == len(wanted)
    for line, raw in zip(read, wanted, strict=True):
        clean = raw.removesuffix(b"\r").decode("utf-8", "replace").replace("\0", "\ufffd")
        assert line.text == clean or (line.text is None and line.problem and invalid == "skip")


@given(content=any_bytes, fields=st.sampled_from([("", ""), ("1", "2"), ("2", "1"), ("a.b", "c")]))
@any_file
def test_any_bytes_as_tables(tmp_path: Path, content: bytes, fields: tuple[str, str]) -> None:
    path = tmp_path / "any"
    path.write_bytes(content)
    for reader in (tsv, jsonl):
        try:
            for row in reader(path, "skip", Names(*fields)):
                assert (row.source is None) == (row.target is None) == (row.problem is not None)
        except UsageError as error:
            assert str(error).startswith(str(path))


@given(left=any_bytes, right=any_bytes)
@any_file
def test_any_bytes_side_by_side(tmp_path: Path, left: bytes, right: bytes) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(left)
    target.write_bytes(right)
    try:
        rows = list(parallel(source, target, "replace"))
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert len(rows) == count_lines(source) == count_lines(target)


UNITS = b"""<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>A <hi>dog</hi></seg></tuv><tuv xml:lang="de"><seg>Ein Hund</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>A cat</seg></tuv><tuv xml:lang="de"><seg>Eine Katze</seg></tuv></tu>
</body></tmx>
"""
changes = st.lists(st.tuples(st.integers(0, len(UNITS) - 1), st.integers(0, 255)), max_size=6)


@given(changes=changes, cut=st.integers(0, len(UNITS)))
@any_file
def test_any_change_of_a_tmx(tmp_path: Path, changes: list[tuple[int, int]], cut: int) -> None:
    pytest.importorskip("lxml")
    content = bytearray(UNITS)
    for place, byte in changes:
        content[place] = byte
    path = tmp_path / "any.tmx"
    path.write_bytes(content[:cut] if cut % 2 else content)
    data = Data(source=str(path), source_language="en", target_language="de", invalid="skip")
    try:
        assert len(list(pairs(data, Counts()))) <= 2
    except UsageError as error:
        assert "\n" not in str(error)


TEXT = "".join(f"line {number}\n" for number in range(500)).encode()


def zst(content: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor(write_checksum=True).compress(content)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zst], ids=["gz", "xz", "zst"])
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255), cut=st.booleans())
@any_file
def test_a_changed_archive_never_gives_another_text(tmp_path: Path, pack, place: float, change: int, cut: bool) -> None:
    packed = bytearray(pack(TEXT))
    index = int(place * len(packed))
    if cut:
        del packed[index:]
    else:
        packed[index] ^= change
    path = tmp_path / "any"
    path.write_bytes(packed)
    try:
        with open_bytes(path) as stream:
            text = stream.read()
    except UsageError as error:
        assert str(error).startswith(f"{path}:")
    else:
        assert text in (TEXT, bytes(packed))  # the change hit a name or a date, or made it another file
