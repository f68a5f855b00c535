"""The benchmarks that train several models: what they ask of headway can be asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path

import pytest
from bench import augmentation, distillation, recipes, together, variants

from headway import config
from headway.tasks.run import Run

Asked = list[list[str]]
Said = Callable[..., tuple[Asked, list[str]]]


class Stub:
    """A headway that only writes down what it is asked for."""

    def __init__(self) -> None:
        self.asked: Asked = []

    def __call__(self, *words: object) -> None:
        self.asked.append([str(word) for word in words])
        if words[0] == "evaluate":
            scores = {"bleu": float(len(self.asked))}
            Path(after("--json", self.asked[-1])[0]).write_text(json.dumps({"scores": scores}))
        if words[0] in ("distill", "augment"):
            made = Path(after("--out", self.asked[-1])[0])
            made.mkdir()
            for end in ("en", "de"):
                (made / f"train.{end}").write_text("made\n")


def after(option: str, words: list[str]) -> list[str]:
    """What stands after an option, each time."""
    return [given for word, given in pairwise(words) if word == option]


def settings_of(words: list[str]) -> dict[str, str]:
    return dict(setting.split("=", 1) for setting in after("--set", words))


def twenty_pairs(folder: Path) -> None:
    folder.mkdir()
    for part, language in product(("train", "val", "test_2016_flickr"), ("en", "de")):
        text = "".join(f"{language} {number}\n" for number in range(20))
        (folder / f"{part}.{language}").write_text(text, encoding="utf-8")


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    twenty_pairs(tmp_path / "multi30k")
    stub = Stub()
    monkeypatch.setattr(recipes, "DATA", tmp_path)
    for module in (recipes, augmentation, distillation, together):
        monkeypatch.setattr(module, "headway", stub)

    def call(main: Callable[[], None], *words: object) -> tuple[Asked, list[str]]:
        monkeypatch.setattr(sys, "argv", ["bench", *map(str, words), "--work", str(tmp_path / "work")])
        main()
        for each in stub.asked:
            if each[0] == "train":
                config.load(Run, Path(each[1]), after("--set", each))  # or it says what it does not know
        return stub.asked, [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]

    return call


def test_together_measures_each_seed_and_all(said: Said) -> None:
    asked, rows = said(together.main, "multi30k-en-de", "--seeds", 3, "--set", "training.epochs=1")
    trained = [words for words in asked if words[0] == "train"]
    assert [after("--seed", words) for words in trained] == [["1"], ["2"], ["3"]]
    models = [after("--out", words)[0] for words in trained]
    assert asked[-1][:2] == ["evaluate", models[0]] and after("--with", asked[-1]) == models[1:]
    assert [row.split(" | ")[0] for row in rows] == ["| seed", "| 1", "| 2", "| 3", "| together"]


def test_together_teaches_a_student(said: Said, tmp_path: Path) -> None:
    asked, rows = said(together.main, "multi30k-en-de", "--seeds", 2, "--student", tmp_path / "multi30k" / "val.en")
    models = [after("--out", words)[0] for words in asked if words[0] == "train"]
    teachers = next(words for words in asked if words[0] == "distill")
    assert teachers[1] == models[0] and after("--with", teachers) == [models[1]]
    learned = settings_of(next(words for words in asked if after("--out", words) == [models[2]]))
    for end, language in (("source", "en"), ("target", "de")):
        lines = Path(learned[f"data.{end}"]).read_text().splitlines()
        assert len(lines) == 21 and lines[0] == f"{language} 0" and lines[-1] == "made"
    assert rows[-1].startswith("| student | ")


def test_variants_change_one_thing_at_a_time_and_look_at_dev_only(said: Said) -> None:
    tries = ("--try", 'model.tie_embeddings="output"', "--try", "model.encoder_layers=4 model.decoder_layers=2")
    asked, rows = said(variants.main, "multi30k-en-de", "--set", "training.epochs=1", *tries)
    changes = [settings_of(words) for words in asked if words[0] == "train"]
    plain = changes[0].keys()
    assert [each.keys() - plain for each in changes] == [
        set(), {"model.tie_embeddings"}, {"model.encoder_layers", "model.decoder_layers"},
    ]  # fmt: skip
    assert all(each["training.epochs"] == "1" for each in changes) and len(rows) == 4
    assert all("val.en" in " ".join(words) for words in asked if words[0] == "evaluate")
    assert not any("test_2016" in word for words in asked for word in words)


def test_back_translation_uses_no_english_of_the_text_that_has_none(said: Said, tmp_path: Path) -> None:
    asked, rows = said(augmentation.main, "--every", 10, "--steps", 1)
    work = tmp_path / "work"
    assert (work / "real.en").read_text() == "en 0\nen 10\n" and len((work / "more.de").read_text().split("\n")) == 19
    assert [words[0] for words in asked] == ["train", "evaluate", "train", "evaluate", "augment", "train", "evaluate"]
    back, real, both = (settings_of(words) for words in asked if words[0] == "train")
    assert (back["data.source"], back["data.target"]) == (real["data.target"], real["data.source"])
    assert "data.corpora" in both and {key: both[key] for key in real} == real and len(rows) == 4


def test_students_learn_for_as_many_steps(said: Said, tmp_path: Path) -> None:
    asked, rows = said(distillation.main, "teacher", "--epochs", 8)
    epochs = [float(settings_of(words)["training.epochs"]) for words in asked if words[0] == "train"]
    assert epochs == [8, 8, 4] and asked[0][:2] == ["evaluate", "teacher"] and len(rows) == 5
    both = (tmp_path / "work" / "both.source").read_text().splitlines()
    assert both[0] == "en 0" and both[-1] == "made" and len(both) == 21
