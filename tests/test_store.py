"""The encoded corpus: what goes in comes out, nothing half-made is ever opened, memory stays flat."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from full_disk import largest_file
from headway.data import store as stores
from headway.data.corpus import Pair
from headway.errors import DiskError, UsageError
from headway.storage.lock import sweep
from headway.storage.sealed_json import sealed, unsealed
from headway.text.vocabulary import EOS


class Letters:
    """One id for each letter."""

    def __init__(self, size: int = 300) -> None:
        self.tags = {"de": 4, "fr": 5}
        self.size = size

    def __len__(self) -> int:
        return self.size

    def encode_many(self, texts: list[str]) -> list[list[int]]:
        return [[ord(letter) for letter in text] for text in texts]


def make_pairs(count: int, corpus: int = 0, tag: str = "de") -> list[Pair]:
    rng = np.random.default_rng(count + corpus)
    texts = ["".join(map(chr, rng.integers(97, 123, size))) for size in rng.integers(1, 30, 2 * count)]
    return [Pair(texts[2 * i], texts[2 * i + 1], tag, corpus, i + 1) for i in range(count)]


def build(folder: Path, pairs: list[Pair], key: str = "key", longest: int = 100, size: int = 300) -> stores.Store:
    return stores.build(folder, key, pairs, Letters(size), Letters(size), longest)


def rows_of(side: stores.RaggedColumn, indices: list[int]) -> list[list[int]]:
    table = side.ragged(np.array(indices, int))
    return [row.tolist() for row in np.split(table.flat, table.offsets[1:-1])]


@pytest.mark.parametrize(("size", "kind"), [(300, "uint16"), (65535, "uint16"), (65536, "uint32")])
def test_what_goes_in_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, kind: str) -> None:
    monkeypatch.setattr(stores, "BLOCK", 7)
    pairs = [*make_pairs(50), *make_pairs(30, corpus=2, tag="fr"), *make_pairs(5, corpus=3, tag="")]
    build(tmp_path, pairs, size=size)
    store = stores.open(tmp_path, "key")
    assert store is not None
    assert len(store) == 85
    assert store.facts.corpora == [50, 0, 30, 5]
    assert store.source.ids.values.dtype == kind
    asked = np.random.default_rng(0).integers(0, 85, 200)  # repeated and in any order
    chosen = [pairs[i] for i in asked]
    tags = {"": [], "de": [4], "fr": [5]}
    sources = [[*tags[pair.tag], *map(ord, pair.source), EOS] for pair in chosen]
    targets = [[*map(ord, pair.target)] for pair in chosen]
    assert rows_of(store.source, [*asked]) == sources
    assert rows_of(store.target, [*asked]) == targets
    assert store.source.lengths(asked).tolist() == [len(row) for row in sources]
    assert store.lines(asked).tolist() == [pair.line for pair in chosen]
    assert store.corpora(asked).tolist() == [pair.corpus for pair in chosen]
    assert store.facts.longest == [max(map(len, sources)), max(map(len, targets))]


def test_many_rows_are_read_in_parts(tmp_path: Path) -> None:
    pairs = make_pairs(60)
    store = build(tmp_path, pairs)
    asked = np.random.default_rng(1).integers(0, 60, 10_000)
    assert rows_of(store.target, [*asked]) == [[*map(ord, pairs[i].target)] for i in asked]


def test_pairs_left_out_are_counted_with_reason_and_place(tmp_path: Path) -> None:
    texts = [("a", "b"), ("", "b"), ("a", ""), ("aaaa", "b"), ("a", "bbbb"), ("aaa", "bbb"), ("", "")]
    pairs = [Pair(source, target, "", 0, line) for line, (source, target) in enumerate(texts, 1)]
    facts = build(tmp_path, pairs, longest=3).facts
    assert facts.examples == 2
    assert facts.dropped == {
        "source empty": 2,
        "target empty": 1,
        "source longer than 3 tokens": 1,
        "target longer than 3 tokens": 1,
    }
    assert facts.places["source empty"] == [[0, 2], [0, 7]]
    assert sum(facts.dropped.values()) + facts.examples == len(pairs)


def test_a_store_without_examples(tmp_path: Path) -> None:
    store = build(tmp_path, [])
    assert len(store) == 0
    assert stores.open(tmp_path, "key") is not None
    assert rows_of(store.source, []) == [[]]


def test_an_unknown_tag_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'it' is not in the vocabulary; known: de, fr"):
        build(tmp_path, make_pairs(2, tag="it"))
    assert not list(tmp_path.iterdir())


def test_corpora_must_come_one_after_another(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="corpus 0 comes after one of 1"):
        build(tmp_path, [*make_pairs(2, corpus=1), *make_pairs(2, corpus=0)])


# ---------------------------------------------------------------- a cache that can be trusted


def test_stores_of_other_content_lie_side_by_side(tmp_path: Path) -> None:
    build(tmp_path, make_pairs(3), key="one")
    build(tmp_path, make_pairs(4), key="two")
    lengths = [store and len(store) for store in (stores.open(tmp_path, key) for key in ("one", "two", "three"))]
    assert lengths == [3, 4, None]


NAMES = ("source.ids", "source.offsets", "target.ids", "target.offsets", "lines", "corpora", "facts.json")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["missing", "shorter", "empty", "longer", "other first", "other last"])
def test_a_damaged_cache_is_built_again(tmp_path: Path, name: str, damage: str) -> None:
    pairs = make_pairs(20)
    build(tmp_path, pairs)
    file = stores.place_of(tmp_path, "key") / name
    content = file.read_bytes()
    changed = {
        "shorter": content[:-1],
        "empty": b"",
        "longer": content + b"x",
        "other first": bytes([content[0] ^ 1]) + content[1:],
        "other last": content[:-1] + bytes([content[-1] ^ 128]),
    }
    file.unlink() if damage == "missing" else file.write_bytes(changed[damage])
    assert stores.open(tmp_path, "key") is None
    assert stores.anew(file.parent)[0].startswith(f"{file.parent} is damaged")
    build(tmp_path, pairs)
    again = stores.open(tmp_path, "key")
    assert again is not None
    assert rows_of(again.target, [*range(20)]) == [[*map(ord, pair.target)] for pair in pairs]


@pytest.mark.parametrize(
    "change",
    [{"key": "other"}, {"format": 0}, {"examples": 19}, {"pieces": [1, 1]}, {"corpora": []}, {"kinds": ["uint32"] * 2}]
    + [{"kinds": ["nonsense"] * 2}, {"kinds": []}, {"sums": {}, "examples": "20"}, {"unknown": 1}],
)
def test_facts_that_do_not_fit_are_not_believed(tmp_path: Path, change: dict[str, object]) -> None:
    build(tmp_path, make_pairs(20))
    file = stores.place_of(tmp_path, "key") / "facts.json"
    file.write_bytes(sealed(unsealed(file.read_bytes()) | change))
    assert stores.open(tmp_path, "key") is None


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "BLOCK", 5)
    build(tmp_path, make_pairs(10))
    before = sorted(tmp_path.iterdir())

    def broken():
        yield from make_pairs(12)
        raise OSError(errno.EIO, "the corpus, not the cache")

    with pytest.raises(OSError, match="the corpus"):
        stores.build(tmp_path, "other", broken(), Letters(), Letters(), 100)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("most", [4000, 100_000])  # in the first block, in a later one
def test_a_full_disk_is_reported_in_one_line(tmp_path: Path, most: int) -> None:
    with largest_file(most), pytest.raises(DiskError) as caught:
        build(tmp_path, make_pairs(10_000))
    said = str(caught.value)
    assert said.startswith(f"cannot write {tmp_path}: ") and "bytes are needed); free some space" in said
    assert "\n" not in said and not list(tmp_path.iterdir())


def test_the_work_of_a_faster_process_is_kept(tmp_path: Path) -> None:
    pairs = make_pairs(10)

    def slow():
        yield from pairs[:5]
        build(tmp_path, pairs)
        yield from pairs[5:]

    store = stores.build(tmp_path, "key", slow(), Letters(), Letters(), 100)
    assert len(store) == 10
    assert rows_of(store.target, [9]) == [[*map(ord, pairs[9].target)]]
    assert [path.name for path in tmp_path.iterdir()] == [store.folder.name]


def test_no_facts_can_be_changed_unseen(tmp_path: Path) -> None:
    """Also those that the files do not bear out, such as the length of the longest row."""
    build(tmp_path, make_pairs(20))
    file = stores.place_of(tmp_path, "key") / "facts.json"
    sound = file.read_bytes()
    digits = [place for place, byte in enumerate(sound) if chr(byte).isdigit()]
    for place in digits:
        file.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        assert stores.open(tmp_path, "key") is None, sound[place - 30 : place + 1]
    file.write_bytes(sound)
    assert stores.open(tmp_path, "key") is not None


def test_a_build_carries_the_number_of_its_process(tmp_path: Path) -> None:
    """By it the next start tells the folder of a killed process from that of one that runs."""
    place = stores.place_of(tmp_path, "key")
    ours = stores.make_beside(place)
    dead = ours.with_name(f"{ours.name.rpartition('-')[0]}-{dead_process()}")
    living = ours.with_name(f"{ours.name.rpartition('-')[0]}-{os.getppid()}")
    for folder in (dead, living):
        folder.mkdir()
        (folder / "lines").write_bytes(b"1234")
    sweep(tmp_path)
    assert {*tmp_path.iterdir()} == {living}


def dead_process() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


# ---------------------------------------------------------------- memory

MEASURE = """
import resource, sys
from itertools import repeat
from pathlib import Path
from headway.data import order, store
from headway.data.batches import Batches, BatchSettings
from headway.data.corpus import Pair

class Fixed:
    tags = {}
    row = [*range(4, 34)]
    def __len__(self): return 100
    def encode_many(self, texts): return [self.row for _ in texts]

order.WINDOW_EXAMPLES = 20_000
made = store.build(Path(sys.argv[1]), "key", repeat(Pair("", "", "", 0, 1), int(sys.argv[2])), Fixed(), Fixed(), 50)
for batch in Batches(made, BatchSettings(), seed=1).iterate(order.Cursor()):
    if batch.cursor.window == 4:
        break
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    """One is 27 MB larger on disk than the other, and its windows lie all over it."""
    peaks = [
        int(subprocess.check_output([sys.executable, "-c", MEASURE, str(tmp_path / str(count)), str(count)]))
        for count in (100_000, 300_000)
    ]
    assert peaks[1] - peaks[0] < 10 * 1024
