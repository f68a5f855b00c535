"""headway translate: one line out for every line in, and on again after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from io import BufferedReader, RawIOBase
from pathlib import Path

import pytest
import torch

from compiled import require_kernel
from full_disk import largest_file
from headway import cli
from headway.data.formats import sized_lines
from headway.tasks.translation.file_translation import LONGEST_LINE
from headway.tasks.translation.unfinished import record_of
from model_folders import TEXT, random_folder

ENGINE = "headway: engine torch (fp32): it was asked for\n"  # said where --engine torch is given
LINES = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "in.txt"
    chosen = random.Random(0)
    path.write_text("".join(f"{chosen.choice([*TEXT, ''])} {i}\n" for i in range(LINES)), encoding="utf-8")
    return path


def headway(*words: object, text: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "headway", *map(str, words)]
    return subprocess.run(command, input=text, capture_output=True, timeout=300, check=False)


def test_standard_input_to_standard_output(folder: Path) -> None:
    done = headway("translate", folder, "--beam", 1, "--engine", "torch", text=b"a dog\n\ntwo men\n")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().split("\n")
    assert len(lines) == 4 and lines[1] == "" and lines[3] == ""
    assert done.stderr.decode().startswith(ENGINE)


def test_a_faster_engine_that_cannot_run_is_named_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("PATH", "")
    done = headway("translate", folder, "--beam", 1, text=b"a dog\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(b"headway: engine ") and b"native cannot be used: no C++ compiler" in done.stderr
    assert done.stderr.count(b"headway: engine ") == 1


def test_the_fastest_engine_is_not_worth_a_word(folder: Path) -> None:
    require_kernel()
    assert headway("translate", folder, "--beam", 1, "--device", "cpu", text=b"a dog\n").stderr.count(b"engine") == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_cuda_on_a_machine_without_it(folder: Path) -> None:
    done = headway("translate", folder, "--engine", "cuda", text=b"a dog\n")
    assert done.returncode == 2 and done.stdout == b""
    assert b"engine cuda cannot be used" in done.stderr and b"no CUDA device on this machine" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("extra", [(), ("--n-best", 2, "--beam", 2)])
def test_a_killed_translation_goes_on_byte_for_byte(
    folder: Path, source: Path, tmp_path: Path, extra: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_WINDOW", "20")
    words = ("translate", folder, "--input", source, "--beam", 1, "--engine", "torch", *extra)
    whole = tmp_path / "whole.txt"
    assert headway(*words, "--output", whole).returncode == 0
    broken = tmp_path / "broken.txt"
    chosen = random.Random(1)
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-m", "headway", *map(str, (*words, "--output", broken, "--resume"))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = broken.stat().st_size if broken.exists() else 0
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if broken.exists() and broken.stat().st_size > until + chosen.randrange(1, 600):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.returncode == -signal.SIGKILL  # a translation that is complete cannot be resumed
        if broken.exists():  # a torn last row, as a power cut would leave it
            data = broken.read_bytes()
            broken.write_bytes(data[: max(0, len(data) - chosen.randrange(0, 5))])
    assert headway(*words, "--output", broken, "--resume").returncode == 0
    assert broken.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("words", "text", "code", "said"),
    [
        (("translate", "nowhere"), b"a\n", 2, b"nowhere is not a folder"),
        (("translate", "FOLDER"), b"a\nb\xff\n", 2, b"standard input:2: not UTF-8 at byte 2 (0xff); mend it\n"),
        (("translate", "FOLDER"), b"a\nb\0\n", 2, b"standard input:2: holds a NUL"),
        (("translate", "FOLDER"), b"x" * (1 << 20) + b"y\n", 2, b"standard input:1: the line has 1,048,577 bytes"),
        (("translate", "FOLDER", "--beam", 0), b"a\n", 2, b"beam is 0"),
        (("translate", "FOLDER", "--fast", "--best"), b"a\n", 2, b"choose one"),
        (("translate", "FOLDER", "--confidence", 2), b"a\n", 2, b"from 0 to 1"),
        (("translate", "FOLDER", "--resume"), b"a\n", 2, b"--resume needs"),
        (("translate", "FOLDER", "--input", "missing.txt"), b"", 2, b"missing.txt"),
        (("translate", "FOLDER", "--glossary", "missing.tsv"), b"a\n", 2, b"missing.tsv"),
        (("translate", "FOLDER", "--keep", "%s", "--keep", "(a"), b"a\n", 2, b"keep '(a': not a regular expression"),
        (("translate", "nowhere", "--keep", "a*"), b"a\n", 2, b"keep 'a*': it matches the empty text"),
        (("translate", "FOLDER", "--to", "xx"), b"a\n", 2, b"'xx' is not in this model"),
        (("translate",), b"a\n", 2, b"say which, such as --to de"),
    ],
)
def test_mistakes_are_one_line(folder: Path, words: tuple[object, ...], text: bytes, code: int, said: bytes) -> None:
    done = headway(*(folder if word == "FOLDER" else word for word in words), text=text)
    assert done.returncode == code, done.stderr
    assert said in done.stderr and done.stderr.count(b"\n") == 1 and b"Traceback" not in done.stderr


# ---------------------------------------------------------------- files that must not be touched


def type_in(words: Sequence[object], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command, and what it said."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["headway", *map(str, words)])
        return cli.run(), capsys.readouterr().err


def refused(words: Sequence[object], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says that ends with wrong use, in one line besides its engine, without advice to remove a file."""
    code, said = type_in(words, capsys)
    said = said.removeprefix(ENGINE) if "--engine" in words else said
    assert code == 2 and said.count("\n") == 1 and "remove" not in said and "overwrit" not in said, said
    return said


@pytest.mark.parametrize("command", ["translate", "predict"])
def test_an_output_that_exists_is_not_overwritten(
    folder: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, leads_nowhere = tmp_path / "in.txt", tmp_path / "out.txt", tmp_path / "link.txt"
    source.write_text("a dog\n")
    out.write_text("mine")
    leads_nowhere.symlink_to(tmp_path / "nowhere")
    for place in (out, leads_nowhere):
        said = refused((command, folder, "--input", source, "--output", place), capsys)
        assert f"{place} exists; name another --output" in said and "--resume" not in said
    assert out.read_text() == "mine" and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("extra", [(), ("--resume",)])
def test_the_input_is_never_the_output(
    folder: Path, tmp_path: Path, extra: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("a dog\ntwo men\n")
    (tmp_path / "soft.txt").symlink_to(source)
    (tmp_path / "hard.txt").hardlink_to(source)
    (tmp_path / "below").mkdir()
    for name in ("in.txt", "soft.txt", "hard.txt", "below/../in.txt"):
        said = refused(("translate", folder, "--input", source, "--output", tmp_path / name, *extra), capsys)
        assert "is the input itself" in said
    assert source.read_text() == "a dog\ntwo men\n"
    said = refused(("translate", folder, "--input", source, "--output", tmp_path / "out", "--trace", source), capsys)
    assert "exists; name another --trace" in said and source.read_text() == "a dog\ntwo men\n"


def test_only_an_unfinished_translation_is_resumed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("a dog\n")
    out.write_text("a thesis\n")
    words = ("translate", folder, "--input", source, "--output", out, "--resume")
    assert "is not an unfinished translation" in refused(words, capsys)
    record_of(out).write_text("a letter")
    assert "is not the record of an unfinished translation" in refused(words, capsys)
    assert out.read_text() == "a thesis\n" and record_of(out).read_text() == "a letter"


@pytest.fixture
def cut(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[object, ...]:
    """A translation of some lines that a line which is no text has ended; its words but for --resume."""
    source = tmp_path / "in.txt"
    source.write_bytes(b"a dog\ntwo men\n\xff\n")
    words = ("translate", folder, "--input", source, "--output", tmp_path / "out.txt", "--engine", "torch")
    assert "in.txt:3: not UTF-8 at byte 1 (0xff); mend it\n" in refused(words, capsys)
    assert (tmp_path / "out.txt").read_bytes().count(b"\n") == 2
    return words


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--beam", 2), "another beam"),
        (("--prefix", "x"), "another prefix"),
        (("--scores",), "another scores"),
        (("--n-best", 2), "another n_best"),
        (("--glossary", "terms.tsv"), "another glossary"),
        (("--keep", "[0-9]+"), "another keep"),
        (("--input", "other.txt"), "another input"),
        (("MODEL",), "another model"),
    ],
)
def test_other_work_does_not_go_on(
    cut: tuple[object, ...],
    tmp_path: Path,
    change: tuple[object, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "terms.tsv").write_text("dog\tHund\n")
    (tmp_path / "other.txt").write_text("a cat\n")
    before = (tmp_path / "out.txt").read_bytes()
    words = [*cut, "--resume", *(change if change != ("MODEL",) else ())]
    if change == ("MODEL",):
        words[1] = random_folder(tmp_path / "model", seed=1)
    assert said in refused(words, capsys)
    assert (tmp_path / "out.txt").read_bytes() == before and record_of(tmp_path / "out.txt").exists()


@pytest.fixture(autouse=True)
def one_line_a_window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "cut" in request.fixturenames:
        monkeypatch.setenv("HEADWAY_WINDOW", "1")


def test_the_same_work_goes_on_and_leaves_no_record(
    cut: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.txt"
    assert "is unfinished; `headway translate --resume` goes on with it" in refused(cut, capsys)
    source = tmp_path / "in.txt"
    record = record_of(out).read_text()
    broken = hashlib.sha256(source.read_bytes()).hexdigest()
    source.write_bytes(b"a dog\ntwo men\na cat\n")
    assert broken in record
    record_of(out).write_text(record.replace(broken, hashlib.sha256(source.read_bytes()).hexdigest()))
    assert type_in((*cut, "--resume"), capsys)[0] == 0
    assert type_in((*cut[:5], tmp_path / "whole.txt", *cut[6:]), capsys)[0] == 0
    assert out.read_bytes() == (tmp_path / "whole.txt").read_bytes()
    assert sorted(path.name for path in tmp_path.glob("*.resume")) == []
    assert "is not an unfinished translation" in refused((*cut, "--resume"), capsys)


def test_a_translation_that_wrote_nothing_leaves_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(b"\xff\n")
    refused(("translate", folder, "--input", source, "--output", out), capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt"]


# ---------------------------------------------------------------- long lines


def test_a_long_line_of_a_file_is_refused_with_its_size(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.txt"
    for size, end in ((LONGEST_LINE + 1, b"\r\n"), (LONGEST_LINE * 3, b"")):
        source.write_bytes(b"a dog\n" + b"x" * size + end)
        said = refused(("translate", folder, "--input", source, "--engine", "torch"), capsys)
        assert f"{source}:2: the line has {size:,} bytes, and at most 1,048,576 are read; break it" in said


def test_a_line_of_any_length_takes_little_memory() -> None:
    """The stream makes a line of 256 MB out of nothing."""
    sized = sized_lines(Path("x"), BufferedReader(Endless(b"x" * (1 << 16), 4096)), LONGEST_LINE)
    tracemalloc.start()
    assert list(sized) == [4096 << 16]
    assert tracemalloc.get_traced_memory()[1] < 8 * LONGEST_LINE
    tracemalloc.stop()


class Endless(RawIOBase):
    def __init__(self, piece: bytes, times: int) -> None:
        self.piece, self.left = piece, times * len(piece)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        size = min(len(buffer), len(self.piece), self.left)
        buffer[:size] = self.piece[:size]
        self.left -= size
        return size


# ---------------------------------------------------------------- closed pipes and full disks


def with_closed_pipe(*words: object) -> subprocess.CompletedProcess[bytes]:
    """A command of whose standard output nobody reads a byte."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "headway", *map(str, words)]
    try:
        return subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, timeout=300, check=False)
    finally:
        os.close(writes)


def test_a_reader_that_has_seen_enough_ends_it_in_silence(folder: Path, source: Path) -> None:
    done = with_closed_pipe("translate", folder, "--beam", 1, "--engine", "torch", "--input", source)
    assert (done.returncode, done.stderr.decode()) == (0, ENGINE)


def test_a_reader_that_has_seen_enough_does_not_cost_a_file(source: Path, tmp_path: Path) -> None:
    words = ("--hypothesis", source, "--metrics", "exact", "--resamples", 0)
    files = ("--json", tmp_path / "a.json", "--html", tmp_path / "b.html")
    done = with_closed_pipe("evaluate", "--reference", source, *words, *files)
    assert done.returncode == 0 and done.stderr.count(b"\n") == 2, done.stderr
    assert json.loads((tmp_path / "a.json").read_bytes()) and "</html>" in (tmp_path / "b.html").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has this disk that is always full")
@pytest.mark.parametrize("words", [("translate", "FOLDER", "--beam", 1), ("config",)])
def test_a_full_standard_output_is_said(folder: Path, words: tuple[object, ...]) -> None:
    command = [sys.executable, "-m", "headway", *(str(folder if word == "FOLDER" else word) for word in words)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, input=b"a dog\n", stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3 and done.stderr.count(b"\n") == 1, done.stderr
    assert b"cannot write standard output: No space left on device" in done.stderr


def test_a_full_disk_is_said_and_the_translation_goes_on_later(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_WINDOW", "8")
    source = tmp_path / "in.txt"
    source.write_text("two men sit on a bench\n" * 40)
    words = ("translate", folder, "--input", source, "--beam", 1, "--engine", "torch", "--output")
    with largest_file(2048):
        code, said = type_in((*words, tmp_path / "out.txt"), capsys)
    assert code == 3 and said.startswith(f"{ENGINE}headway: cannot write {tmp_path / 'out.txt'}: ")
    assert "bytes are needed); free some space" in said and said.count("\n") == 2
    assert type_in((*words, tmp_path / "out.txt", "--resume"), capsys)[0] == 0
    assert type_in((*words, tmp_path / "whole.txt"), capsys)[0] == 0
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()


def test_unsure_lines_are_left_empty(folder: Path) -> None:
    done = headway("translate", folder, "--beam", 1, "--confidence", 1, "--engine", "torch", text=b"a dog\n")
    assert done.stdout == b"\n" and b"1 lines left empty" in done.stderr


def test_what_patterns_match_is_kept(folder: Path) -> None:
    words = ("translate", folder, "--keep", r"\{\w+\}", "--keep", "%[sd]", "--engine", "torch")
    done = headway(*words, text="a dog {run_龘} through %s snow\n\ntwo men\n".encode())
    first, empty, _, _ = done.stdout.decode().split("\n")
    assert "{run_龘}" in first and "%s" in first and empty == "" and b"lack" not in done.stderr


def test_scores_are_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a dog\nb\n")
    (tmp_path / "t").write_text("ein Hund\nc\n")
    done = headway("score", folder, "--source", tmp_path / "s", "--target", tmp_path / "t")
    rows = done.stdout.decode().split("\n")
    assert len(rows) == 3 and all(float(x) <= 0 for row in rows[:2] for x in row.split("\t"))


def test_a_line_of_json_holds_a_translation_and_its_facts(folder: Path) -> None:
    words = ("translate", folder, "--beam", 2, "--n-best", 2, "--alignments", "--json", "--engine", "torch", "--quiet")
    done = headway(*words, text=b"a dog\n\ntwo men\n")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["source"] for row in rows] == ["a dog", "", "two men"]
    plain = headway(*words[:4], "--n-best", 2, "--engine", "torch", text=b"a dog\n\ntwo men\n").stdout.decode()
    texts = [row["text"] for row in rows if row["source"]]
    assert texts == [line.split("\t")[1] for line in plain.splitlines() if line.split("\t")[0] in "02"][::2]
    assert len(rows[0]["alternatives"]) == 1 and rows[0]["confidence"] <= 1
    assert done.stderr == b""


@pytest.mark.parametrize("named", [True, False])
def test_time_codes_of_subtitles_are_refused_before_anything_is_written(
    folder: Path, tmp_path: Path, named: bool
) -> None:
    film = tmp_path / "film.srt"
    film.write_bytes(b"1\n00:00:01,000 --> 00:00:02,500\na dog\n")
    out = tmp_path / "out.srt"
    words = ("translate", folder, "--output", out, "--engine", "torch")
    done = headway(*words, "--input", film) if named else headway(*words, text=film.read_bytes())
    assert done.returncode == 2 and not out.exists()
    where = str(film) if named else "standard input"
    said = done.stderr.decode()
    assert said.startswith(f"{ENGINE}headway: {where}:2: this is a time code of subtitles") and said.count("\n") == 2
