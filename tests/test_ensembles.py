"""Several models that write together, from their folders: what each command says of them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headway import Translator, cli
from headway.errors import UsageError
from headway.tasks.translation.synthesis import FACTS
from headway.text.tokenizer import Subword
from model_folders import DATA, TEXT, random_folder

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [random_folder(tmp_path / f"model-{seed}", seed=seed) for seed in range(3)]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Typed:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in TEXT[:4]), encoding="utf-8")

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headway", *map(str, words), "--device", "cpu"])
        code = cli.run()
        return code, *capfd.readouterr()

    return run


def test_a_piece_is_as_likely_as_it_is_on_average(folders: list[Path]) -> None:
    """Forced along the same text, each model by itself and all together."""
    first, *others = folders
    together = Translator.load(first, "cpu", beside=others)
    alone = [Translator.load(folder, "cpu", "torch") for folder in folders]
    found = together.score(TEXT[:3], TEXT[3:6])
    each = [one.score(TEXT[:3], TEXT[3:6]) for one in alone]
    for place, hypothesis in enumerate(found):
        for piece, score in enumerate(hypothesis.token_scores):
            mean = sum(math.exp(some[place].token_scores[piece]) for some in each) / len(each)
            assert score == pytest.approx(math.log(mean), abs=1e-4)


def test_what_is_written_is_likelier_to_all_than_what_one_writes(folders: list[Path]) -> None:
    first, *others = folders
    together, alone = Translator.load(first, "cpu", beside=others), Translator.load(first, "cpu", "torch")
    outputs = [translator(TEXT, beam=4) for translator in (together, alone)]
    assert [one.text for one in outputs[0]] != [one.text for one in outputs[1]]
    scores = [[one.total for one in together.score(TEXT, [one.text for one in some])] for some in outputs]
    assert sum(scores[0]) > sum(scores[1])


def test_a_model_beside_itself_says_what_it_says_alone(folders: list[Path]) -> None:
    twice, once = Translator.load(folders[0], "cpu", beside=folders[:1]), Translator.load(folders[0], "cpu", "torch")
    for ours, plain in zip(twice(TEXT, beam=3), once(TEXT, beam=3), strict=True):
        assert ours.text == plain.text and ours.score == pytest.approx(plain.score, abs=1e-5)


def test_other_pieces_are_refused(folders: list[Path], tmp_path: Path) -> None:
    other = random_folder(tmp_path / "other", text=Subword(size=320))
    with pytest.raises(UsageError, match="other: its pieces are not those of the first model"):
        Translator.load(folders[0], "cpu", beside=[folders[1], other])


def test_the_other_direction_is_refused(folders: list[Path], tmp_path: Path) -> None:
    """Joint pieces are the same both ways."""
    turned = random_folder(tmp_path / "turned", data=replace(DATA, source_language="de", target_language="en"))
    with pytest.raises(UsageError, match="turned: it translates from de to en, and the first model from en to de"):
        Translator.load(folders[0], "cpu", beside=[turned])
    silent = random_folder(tmp_path / "silent", data=replace(DATA, source_language="", target_language=""))
    Translator.load(folders[0], "cpu", beside=[silent])
    with pytest.raises(UsageError, match="give a list of folders"):
        Translator.load(folders[0], "cpu", beside=str(turned))


def test_a_line_fits_all_of_them(folders: list[Path], tmp_path: Path) -> None:
    short = random_folder(tmp_path / "short", data=replace(DATA, longest=10))
    assert Translator.load(folders[0], "cpu", beside=[short]).longest == 10


def test_translate_and_evaluate_by_command(folders: list[Path], typed: Typed) -> None:
    beside = ("--with", folders[1], "--with", folders[2])
    code, out, error = typed("translate", folders[0], *beside, "--input", "text", "--beam", 2)
    assert code == 0, error
    expected = Translator.load(folders[0], "cpu", beside=folders[1:])(TEXT[:4], beam=2)
    assert out.splitlines() == [one.text for one in expected]
    words = ("--source", "text", "--reference", "text", "--json", "report.json", "--beam", 2, "--resamples", 0)
    code, _, error = typed("evaluate", folders[0], *beside, *words)
    assert code == 0, error
    assert json.loads(Path("report.json").read_text())["system"] == " + ".join(map(str, folders))
    code, out, error = typed("score", folders[0], *beside, "--source", "text", "--target", "text")
    assert code == 0 and len(out.splitlines()) == 4, error


def test_a_corpus_knows_all_its_teachers(folders: list[Path], typed: Typed) -> None:
    words = ("distill", folders[0], "--source", "text", "--out", "made", "--beam", 2, "--with")
    code, _, error = typed(*words, folders[1])
    assert code == 0, error
    assert json.loads((Path("made") / FACTS).read_text())["beside"] == [str(folders[1])]
    code, _, error = typed(*words, folders[2])
    assert code == 2 and "made with another model beside (1)" in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--with", "nowhere"), "nowhere is not a folder"),
        (("--with", "OTHER", "--engine", "native"), "engine is 'native', but several models write together by torch"),
        (("--with", "OTHER", "--precision", "int8"), "precision is 'int8', but several models write together by fp32"),
        (("--with", "OTHER", "--trace", "trace.jsonl"), "--trace shows one model; leave --with out"),
    ],
)
def test_mistakes_are_one_line(folders: list[Path], typed: Typed, words: tuple[str, ...], said: str) -> None:
    given = (folders[1] if word == "OTHER" else word for word in words)
    code, _, error = typed("translate", folders[0], "--input", "text", *given)
    assert code == 2 and said in error and error.count("\n") == 1
