"""A model folder is one model, whole, and what is not one is refused in one line."""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from headway.errors import DiskError, UsageError
from headway.storage import files
from headway.storage import folder as model_folder
from headway.storage.card import CardFacts, DataFile, Score, card
from headway.storage.checked_weights import check_tensors
from headway.storage.folder import FORMAT, read_model, write_model
from headway.storage.lock import Lock
from headway.storage.publication import newest
from models import snapshot


def publish(folder: Path, value: float, tokenizer: str = "joint.model") -> None:
    """A model whose every file tells the same number."""

    def save_tokenizers(place: Path) -> None:
        (place / tokenizer).write_text(f"pieces {value}")

    weights = {"encoder.weight": torch.full((2, 3), value), "bias": torch.full((3,), value)}
    write_model(folder, weights, f"seed = {value}\n", {"task": "translation"}, save_tokenizers, "card")


def told(folder: Path) -> set[str]:
    """The numbers the files tell: one, if they belong together."""

    def read(place: Path) -> tuple[model_folder.ModelFiles, list[str]]:
        return read_model(place), [path.read_text() for path in place.glob("joint.*")]

    found, pieces = newest(folder, read)
    assert found.notes == []
    return {
        *(str(number) for tensor in found.tensors.values() for number in tensor.unique().tolist()),
        found.config_text.split()[-1],
        *(text.split()[-1] for text in pieces),
    }


def refusal(folder: Path, **options: Any) -> str:
    start = time.monotonic()
    with pytest.raises(UsageError) as caught:
        read_model(folder, **options)
    line = str(caught.value)
    assert "\n" not in line and len(line) < 500 + len(str(folder)) and time.monotonic() - start < 2
    return line


@pytest.fixture
def published(tmp_path: Path) -> Path:
    publish(tmp_path / "model", 1.0)
    return tmp_path / "model"


def exchange_weights(folder: Path, data: bytes) -> None:
    """As one who means harm would: the facts agree with the bytes."""
    (folder / "model.safetensors").write_bytes(data)
    digest = files.digest_of(folder / "model.safetensors")
    change_facts(
        folder, lambda facts: facts["files"].update({"model.safetensors": dict(size=digest.size, sha256=digest.sha256)})
    )


def change_facts(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    facts = json.loads((folder / "headway.json").read_text())
    change(facts)
    (folder / "headway.json").write_text(json.dumps(facts))


# ---------------------------------------------------------------- there and back


def test_what_was_written_is_read(published: Path) -> None:
    found = read_model(published)
    assert told(published) == {"1.0"}
    assert (found.facts["task"], found.facts["format"]) == ("translation", FORMAT)
    names = {path.name for path in published.iterdir()}
    assert names == {"config.toml", "model.safetensors", "joint.model", "README.md", "headway.json"}
    theirs = safetensors.torch.load_file(published / "model.safetensors")
    assert all(torch.equal(theirs[name], tensor) for name, tensor in found.tensors.items())
    assert read_model(published, quick=True).config_text == found.config_text


def test_a_new_model_takes_the_place_of_the_old(published: Path) -> None:
    (published / "metrics.jsonl").write_text("{}\n")
    publish(published, 2.0, tokenizer="joint.vocab")
    assert told(published) == {"2.0"}
    assert (published / "joint.vocab").exists() and not (published / "joint.model").exists()
    assert (published / "metrics.jsonl").exists()


def test_an_edited_configuration_or_card_is_not_refused(published: Path) -> None:
    (published / "config.toml").write_text("seed = 5\n")
    (published / "README.md").write_text("my card")
    found = read_model(published)
    assert found.config_text == "seed = 5\n" and "edited" in found.notes[0]


def test_weights_that_are_not_finite_are_told(published: Path) -> None:
    weights = {"a": torch.tensor([1.0, float("nan")]), "b": torch.ones(2), "c": torch.tensor([float("-inf")])}
    exchange_weights(published, safetensors.torch.save(weights))
    notes = read_model(published).notes
    assert ["'a'" in notes[0], "'c'" in notes[1]] == [True, True] and len(notes) == 2


def test_weights_are_mapped_and_stay_when_the_folder_changes(published: Path) -> None:
    found = read_model(published)
    publish(published, 2.0)
    assert found.tensors["bias"].tolist() == [1.0] * 3
    found.tensors["bias"].zero_()  # a private copy: the file is not written through
    assert told(published) == {"2.0"}


# ---------------------------------------------------------------- the plug

KILLER = """
import os, shutil, sys
from itertools import count
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_folder import publish
from headway.storage import files

files.CHUNK = 100
root = Path(sys.argv[2])
publish(root / "old", 1.0)
for n in count(1):
    folder = root / str(n)
    shutil.copytree(root / "old", folder)
    child = os.fork()
    if child == 0:
        os.environ["HEADWAY_FAULT"] = f"any:{n}:kill"
        files.plug.cache_clear()
        publish(folder, 2.0, "joint.vocab")
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status)
    if status == 0:
        break
"""


def test_killed_at_every_point_the_folder_is_the_old_or_the_new_model(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(Path(__file__).parent), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    ends = [int(line) for line in done.stdout.split()]
    assert len(ends) > 30 and set(ends[:-1]) == {-signal.SIGKILL}
    before = snapshot(tmp_path)
    seen = [told(tmp_path / str(n)) for n in range(1, len(ends) + 1)]
    assert snapshot(tmp_path) == before
    assert [numbers for numbers in seen if numbers not in ({"1.0"}, {"2.0"})] == []
    assert seen == sorted(seen, key=str) and seen[0] == {"1.0"} and seen[-1] == {"2.0"}
    for n in range(1, len(ends) + 1, 6):
        publish(tmp_path / str(n), 3.0)
        names = {path.name for path in (tmp_path / str(n)).iterdir()}
        assert told(tmp_path / str(n)) == {"3.0"}
        assert names == {"config.toml", "model.safetensors", "joint.model", "README.md", "headway.json"}


def test_a_failing_disk_leaves_the_old_or_the_new_model(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value, failures = 1.0, 0
    for turn in range(1, 100):
        monkeypatch.setenv("HEADWAY_FAULT", f"any:{turn}:enospc")
        files.plug.cache_clear()
        try:
            publish(published, value + 1)
            break
        except DiskError as error:
            failures += 1
            assert str(published) in str(error) and "bytes are needed" in str(error)
        finally:
            monkeypatch.delenv("HEADWAY_FAULT")
            files.plug.cache_clear()
        (number,) = told(published)
        assert float(number) in (value, value + 1)
        value = float(number)
    assert failures > 25
    assert told(published) == {str(value + 1)}


def test_a_reader_beside_a_busy_writer_never_sees_a_mixture(published: Path) -> None:
    stop = threading.Event()

    def keep_publishing() -> None:
        value = 2.0
        while not stop.is_set():
            publish(published, value)
            value += 1

    writer = threading.Thread(target=keep_publishing)
    writer.start()
    try:
        for _ in range(60):
            found = read_model(published)
            numbers = {str(n) for tensor in found.tensors.values() for n in tensor.unique().tolist()}
            assert numbers == {found.config_text.split()[-1]} and found.notes == []
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("quick", [False, True])
def test_a_model_published_while_another_is_read_is_read_instead(
    published: Path, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are read before it happens, the configuration after."""
    restored = model_folder.int8.restored

    def publish_once(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if tensors["bias"][0] == 1.0:
            publish(published, 2.0)
        return restored(tensors)

    monkeypatch.setattr(model_folder.int8, "restored", publish_once)
    found = read_model(published, quick)
    assert {float(n) for tensor in found.tensors.values() for n in tensor.unique()} == {2.0}
    assert found.config_text.split()[-1] == "2.0"


def test_an_unfinished_publication_is_read_where_it_lies_and_finished_by_the_next_writer(published: Path) -> None:
    publish(published.parent / "other", 2.0, "joint.vocab")
    (published.parent / "other").rename(published / ".pending")
    published.chmod(0o555)
    before = snapshot(published)
    assert told(published) == {"2.0"} and snapshot(published) == before
    published.chmod(0o755)
    publish(published, 3.0)
    names = {path.name for path in published.iterdir()}
    assert told(published) == {"3.0"}
    assert names == {"config.toml", "model.safetensors", "joint.model", "README.md", "headway.json"}


def test_a_publication_needs_no_second_names_of_files(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    publish(published, 2.0, "joint.vocab")
    assert told(published) == {"2.0"} and not (published / "joint.model").exists()


# ---------------------------------------------------------------- links of a stranger


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_a_reader_leaves_links_alone(published: Path, victim: Path) -> None:
    """The publication seems unfinished, so an eager reader would lock and move."""
    publish(published.parent / "other", 2.0)
    (published.parent / "other").rename(published / ".pending")
    (published / ".lock").symlink_to(victim)
    (published / ".new").symlink_to(victim)
    before = snapshot(published.parent)
    assert told(published) == {"2.0"}
    assert snapshot(published.parent) == before and victim.read_text() == "precious"


def test_a_link_named_like_a_publication_is_not_read(published: Path, victim: Path) -> None:
    publish(published.parent / "other", 2.0)
    (published / ".pending").symlink_to(published.parent / "other")
    before = snapshot(published.parent)
    assert told(published) == {"1.0"} and snapshot(published.parent) == before


@pytest.mark.parametrize("name", [".lock", ".new", ".pending"])
@pytest.mark.parametrize("to", ["victim", "other", "nothing"])
def test_a_writer_refuses_links(published: Path, victim: Path, name: str, to: str) -> None:
    publish(published.parent / "other", 2.0)
    (published / name).symlink_to(published.parent / to)
    before = snapshot(published.parent / "other")
    with pytest.raises(
        UsageError, match=rf"^\S+/{name} is a link, and nothing is written through it; remove it[^\n]*$"
    ):
        publish(published, 3.0)
    assert victim.read_text() == "precious" and snapshot(published.parent / "other") == before
    assert not (published.parent / "nothing").exists() and told(published) == {"1.0"}


def test_a_writer_refuses_a_lock_that_is_another_file(published: Path, victim: Path) -> None:
    for make in (lambda path: os.link(victim, path), os.mkfifo):
        make(published / ".lock")
        with pytest.raises(UsageError, match="is not a plain file of your own"):
            publish(published, 3.0)
        (published / ".lock").unlink()
    assert victim.read_text() == "precious" and told(published) == {"1.0"}


def test_two_writers_at_once_are_refused(published: Path) -> None:
    with Lock(published / ".lock"), pytest.raises(UsageError, match="is being written by process"):
        publish(published, 2.0)
    assert told(published) == {"1.0"}


# ---------------------------------------------------------------- the zoo


def test_what_is_no_model_folder_is_told_what_one_holds(published: Path, tmp_path: Path) -> None:
    assert "is not a folder; a headway model folder holds" in refusal(tmp_path / "nowhere")
    assert "is not a folder" in refusal(published / "README.md")
    (tmp_path / "empty").mkdir()
    assert "has no headway.json; a headway model folder holds" in refusal(tmp_path / "empty")
    for name in ("config.toml", "model.safetensors", "joint.model"):
        (published / name).rename(published / "away")
        assert f"has no {name}" in refusal(published)
        (published / "away").rename(published / name)


@pytest.mark.parametrize("name", ["model.safetensors", "joint.model"])
@pytest.mark.parametrize("harm", ["flip", "cut", "grow"])
def test_damage_is_seen(published: Path, name: str, harm: str) -> None:
    data = (published / name).read_bytes()
    harmed = {"flip": data[:-1] + bytes([data[-1] ^ 4]), "cut": data[:-1], "grow": data + b"\0"}[harm]
    (published / name).write_bytes(harmed)
    assert f"{name} is not the file that was saved" in refusal(published)
    if harm != "flip":
        assert f"{name} is not the file that was saved" in refusal(published, quick=True)


class Trap:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


def test_a_pickle_under_another_name_is_refused_and_never_run(published: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    torch.save({"weight": Trap(canary)}, tmp_path / "zipped")
    torch.save({"weight": Trap(canary)}, tmp_path / "old", _use_new_zipfile_serialization=False)
    plain = [pickle.dumps(Trap(canary), protocol=protocol) for protocol in (2, 3, 4, 5)]
    for data in [(tmp_path / "zipped").read_bytes(), (tmp_path / "old").read_bytes(), *plain]:
        exchange_weights(published, data)
        assert "it is a pickle" in refusal(published)
        assert "it is a pickle" in refusal(published, quick=True)
    exchange_weights(published, pickle.dumps(Trap(canary), protocol=0))
    assert "is not a sound safetensors file" in refusal(published)
    assert not canary.exists()


def tensor_file(header: dict[str, Any] | bytes, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(kind: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


ZOO = {
    "empty": b"",
    "too short": b"1234567",
    "header 2^63": struct.pack("<Q", 1 << 63) + b"x" * 100,
    "header 2^64-1": b"\xff" * 8 + b"x" * 100,
    "header longer than the file": struct.pack("<Q", 1 << 20) + b"{}",
    "header of 90 MB": struct.pack("<Q", 90 << 20) + b"{" * 1000,
    "header not JSON": tensor_file(b"hello"),
    "header not UTF-8": tensor_file(b"\xff\xfe{}"),
    "header a list": tensor_file(b"[]"),
    "header nested deep": tensor_file(b"[" * 100_000),
    "header nested in tables": tensor_file(b'{"a":' * 50_000),
    "entry not a table": tensor_file({"a": 5}),
    "shape not a list": tensor_file({"a": {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]}}, b"1234"),
    "a name twice": tensor_file(b'{"a":%s,"a":%s}' % ((json.dumps(entry("F32", [1], 0, 4)).encode(),) * 2), b"1234"),
    "overlap": tensor_file({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 0, 4)}, b"1234"),
    "gap": tensor_file({"a": entry("F32", [1], 4, 8)}, b"12345678"),
    "negative offset": tensor_file({"a": entry("F32", [1], -4, 0)}, b"1234"),
    "offsets backwards": tensor_file({"a": entry("F32", [1], 4, 0)}, b"1234"),
    "negative shape": tensor_file({"a": entry("F32", [-1], 0, 4)}, b"1234"),
    "shape overflows": tensor_file({"a": entry("F32", [1 << 40, 1 << 40], 0, 4)}, b"1234"),
    "shape larger than the data": tensor_file({"a": entry("F32", [1_000_000_000], 0, 4_000_000_000)}, b"1234"),
    "dtype lies": tensor_file({"a": entry("F64", [1], 0, 4)}, b"1234"),
    "dtype unknown": tensor_file({"a": entry("F33", [1], 0, 4)}, b"1234"),
    "number without end": tensor_file(b'{"a":{"dtype":"F32","shape":[%s]}}' % (b"9" * 5000)),
    "100,000 dimensions": tensor_file({"a": entry("F32", [1] * 100_000, 0, 4)}, b"1234"),
    "bytes behind the end": tensor_file({"a": entry("F32", [1], 0, 4)}, b"12345678"),
    "data missing": tensor_file({"a": entry("F32", [2], 0, 8)}, b"1234"),
}


@pytest.mark.parametrize("kind", ZOO)
def test_weights_of_the_zoo_are_refused(published: Path, kind: str) -> None:
    exchange_weights(published, ZOO[kind])
    assert "model.safetensors is not a sound safetensors file: " in refusal(published)
    assert "model.safetensors is not a sound safetensors file: " in refusal(published, quick=True)


@pytest.mark.parametrize(
    "name", ["../canary", "/etc/hostname", "a/b", "..", "", ".hidden", "nul\0", "line\nbreak", "é"]
)
def test_names_that_are_not_plain_are_refused(published: Path, name: str) -> None:
    (published.parent / "canary").write_text("outside")
    change_facts(published, lambda facts: facts["files"].update({name: {"size": 7, "sha256": "0"}}))
    assert "only plain names" in refusal(published)


@pytest.mark.parametrize("name", ["headway.json", "config.toml", "model.safetensors", "joint.model"])
def test_links_out_of_the_folder_are_refused(published: Path, name: str) -> None:
    (published / name).rename(published.parent / "outside")
    (published / name).symlink_to(published.parent / "outside")
    assert f"{name} leads out of the folder" in refusal(published)


def test_a_link_inside_or_to_the_folder_is_fine(published: Path, tmp_path: Path) -> None:
    (published / "joint.model").rename(published / "kept")
    (published / "joint.model").symlink_to("kept")
    (tmp_path / "alias").symlink_to(published)
    assert told(tmp_path / "alias") == {"1.0"}


@pytest.mark.parametrize("name", ["headway.json", "config.toml", "model.safetensors"])
def test_pipes_folders_and_loops_are_refused(published: Path, name: str) -> None:
    (published / name).unlink()
    os.mkfifo(published / name)
    assert "is not a plain file" in refusal(published)
    (published / name).unlink()
    (published / name).mkdir()
    assert "is not a plain file" in refusal(published)
    (published / name).rmdir()
    (published / name).symlink_to(name)
    assert f"has no {name}" in refusal(published)


@pytest.mark.parametrize("name", ["headway.json", "config.toml"])
def test_long_and_strange_texts_are_refused(published: Path, name: str) -> None:
    (published / name).write_bytes(b" " * (1 << 20) + b"x")
    assert "1,048,577 bytes, at most 1,048,576 are allowed" in refusal(published)
    (published / name).write_bytes(b"caf\xe9")
    assert "not UTF-8 at byte 3" in refusal(published)


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "{}", '{"format": 1}', '{"format": "1", "headway": "0"}', "[" * 100_000, '{"format": -1}']
)
def test_facts_of_somebody_else_are_refused(published: Path, text: str) -> None:
    (published / "headway.json").write_text(text)
    assert "headway.json" in refusal(published)


@pytest.mark.parametrize("listed", [5, [], {}, {"model.safetensors": 5}, {"config.toml": {"size": 1, "sha256": ""}}])
def test_facts_without_a_list_of_files_are_refused(published: Path, listed: object) -> None:
    change_facts(published, lambda facts: facts.update(files=listed))
    assert "does not list" in refusal(published)


def test_a_newer_format_is_refused_politely(published: Path) -> None:
    change_facts(published, lambda facts: facts.update(format=FORMAT + 1, headway="7.1.0"))
    line = refusal(published)
    assert f"format {FORMAT + 1} of headway '7.1.0'" in line and f"reads up to format {FORMAT}" in line


def test_a_file_that_may_not_be_read_is_one_line(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> files.Digest:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files, "digest_of", refuse)
    assert "cannot be read: Permission denied" in refusal(published)


def test_shapes_must_be_those_the_configuration_implies() -> None:
    expected = {"a": (2, 3), "b": (4,)}
    sound = {"a": torch.zeros(2, 3), "b": torch.zeros(4, dtype=torch.bfloat16)}
    check_tensors(expected, sound)
    for change, line in {
        "a": "a has shape (3, 2), config.toml implies (2, 3)",
        "b": "b holds torch.int64",
        "../c\n": "holds '../c\\n', which config.toml does not imply",
    }.items():
        changed = {**sound, change: torch.zeros(4).long() if change == "b" else torch.zeros(3, 2)}
        with pytest.raises(UsageError) as caught:
            check_tensors(expected, changed)
        assert line in str(caught.value)
    with pytest.raises(UsageError, match=r"lacks a, which config.toml implies with shape \(2, 3\)"):
        check_tensors(expected, {"b": sound["b"]})


# ---------------------------------------------------------------- the card


def test_the_card_tells_all_and_cannot_be_broken_by_names() -> None:
    text = card(
        CardFacts(
            name="de-en `small`",
            task="translation",
            command="headway train train.de train.en\n",
            date="2026-01-02",
            languages=("de", "en"),
            licence="CC-BY-4.0",
            data=[DataFile("training", "a|b\n# fake.de", 29_000)],
            sizes={"parameters": 7_900_000},
            scores=[Score("BLEU", 37.125, "nrefs:1|case:mixed|eff:no|tok:13a", "test2016")],
            versions={"torch": "2.11"},
            use="headway translate de-en 'Ein Hund.'",
        )
    )
    front, body = text.split("---\n")[1:3]
    assert "license: cc-by-4.0" in front and "  - de\n  - en" in front
    for told_in_card in ("29,000", "7,900,000", "37.12", "headway train train.de train.en", "2.11", "2026-01-02"):
        assert told_in_card in body
    assert r"nrefs:1\|case:mixed" in body and r"a\|b # fake.de" in body
    assert "headway translate de-en 'Ein Hund.'" in body and "CC-BY-4.0" in body
    rows = [line for line in body.splitlines() if line.startswith("|")]
    assert all(line.endswith(" |") for line in rows)


def test_a_card_without_a_licence_says_so_and_leaves_empty_sections_out() -> None:
    text = card(CardFacts(name="m", task="tagging", command="run ```x```", date="2026-01-02"))
    assert "license: unknown" in text and "depends on the licence of its data" in text
    assert "## Scores" not in text and "````sh\nrun ```x```\n````" in text
