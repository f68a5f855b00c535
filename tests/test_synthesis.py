"""headway distill and augment: ordinary corpora, line by line, made by a model; and on again after a kill."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headway import cli, config
from headway.data.corpus import Data, train_pairs
from headway.data.counts import Counts
from headway.errors import UsageError
from headway.storage.folder import WEIGHTS
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.run import Run
from headway.tasks.translation.result import Translation
from headway.tasks.translation.synthesis import FACTS, Making, back_translate, distil
from headway.tasks.translation.translator import Translator
from model_folders import TEXT, random_folder

LINES = [f"{TEXT[i % len(TEXT)]} {i}" if i % 7 else "" for i in range(53)]


class Engine:
    name, precision = "echo", "fp32"


class Echo(Translator):
    """Says every sentence backwards; its alternatives are the sentence in capitals and as it is."""

    def __init__(self, languages: tuple[str, str] = ("en", "de"), stop_after: int = 10**9) -> None:
        self.source_language, self.target_language = languages
        self.engine: Any = Engine()
        self.device = torch.device("cpu")
        self.asked: list[str] = []
        self.stop_after = stop_after  # lines, then the plug is pulled

    def translate(self, lines: Sequence[str], options: Any = None, **changes: Any) -> list[Translation]:
        if len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked += lines
        return [self.one(line, options.n_best) for line in lines]

    def one(self, line: str, n_best: int) -> Translation:
        said = [Translation(text) for text in (line[::-1], line.upper(), line)]
        looping = line.startswith("He said")
        return replace(said[0], looping=looping, alternatives=said[1:n_best]) if line else Translation("")


@pytest.fixture
def making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Making:
    monkeypatch.setenv("HEADWAY_WINDOW", "5")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / WEIGHTS).write_bytes(b"weights")
    write(tmp_path / "text", LINES)
    return Making("distillation", tmp_path / "model", tmp_path / "text", tmp_path / "made", DecodingOptions())


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---------------------------------------------------------------- what is made


def test_a_teacher_translates_every_line_in_order(making: Making) -> None:
    made = distil(Echo(), making)
    assert (made.source.name, made.target.name) == ("train.en", "train.de")
    assert names(making.folder) == {"train.en", "train.de", FACTS}
    assert read(made.source) == LINES
    assert read(made.target) == ["" if line.startswith("He said") else line[::-1] for line in LINES]
    loops = sum(line.startswith("He said") for line in LINES)
    assert made.facts["lines"] == len(LINES) and made.facts["empty"] == LINES.count("") + loops > loops > 0


def test_training_skips_pairs_without_a_target(making: Making) -> None:
    made = distil(Echo(), making)
    data = Data(source=str(made.source), target=str(made.target), dev_sentences=0)
    pairs = list(train_pairs(data, seed=1, counts=Counts()))
    assert len(pairs) == made.facts["lines"] - made.facts["empty"]


def test_of_several_hypotheses_the_nearest_to_the_reference_is_taken(making: Making, tmp_path: Path) -> None:
    """The references are copies, capitals or reversals of the sources, so we know which hypothesis is right."""
    meant = [(line, line.upper(), line[::-1])[i % 3] for i, line in enumerate(LINES)]
    order = replace(making, reference=write(tmp_path / "meant", meant), decoding=DecodingOptions(beam=3, n_best=3))
    made = distil(Echo(), order)
    looping = [line.startswith("He said") and i % 3 == 2 for i, line in enumerate(LINES)]  # left out by the model
    pairs = zip(read(made.target), meant, looping, strict=True)
    assert all(said == wanted or loops for said, wanted, loops in pairs)
    assert made.facts["chrf_chosen"] > made.facts["chrf_first"] > 0
    assert names(making.folder) == {"train.en", "train.de", FACTS}


def test_back_translation_writes_the_source_side(making: Making) -> None:
    made = back_translate(Echo(languages=("de", "en")), replace(making, kind="back-translation"))
    assert (made.source.name, made.target.name) == ("train.en", "train.de")
    assert read(made.target) == LINES and read(made.source)[1] == LINES[1][::-1]


def test_a_model_that_does_not_know_its_languages(making: Making) -> None:
    assert distil(Echo(languages=("", "")), making).target.name == "train.target"


# ---------------------------------------------------------------- going on


@pytest.mark.parametrize("stop_after", [1, 20, 50])
@pytest.mark.parametrize("referenced", [False, True])
def test_going_on_gives_the_same_bytes(making: Making, tmp_path: Path, stop_after: int, referenced: bool) -> None:
    if referenced:
        making = replace(making, reference=tmp_path / "text", decoding=DecodingOptions(beam=3, n_best=3))
    whole = distil(Echo(), making)
    broken = replace(making, folder=tmp_path / "broken")
    with pytest.raises(KeyboardInterrupt):
        distil(Echo(stop_after=stop_after), broken)
    assert not (broken.folder / "train.de").exists(), "half a corpus must not look like one"
    draft = broken.folder / "draft.tsv"
    draft.write_bytes(draft.read_bytes()[:-3])  # a torn last row, as a power cut would leave it
    again = Echo()
    made = distil(again, broken)
    assert (
        made.target.read_bytes() == whole.target.read_bytes() and made.source.read_bytes() == whole.source.read_bytes()
    )
    assert stop_after < 5 or len(again.asked) < len(LINES)
    assert {**made.facts, "complete": True} == whole.facts


def test_what_is_complete_is_not_made_again(making: Making) -> None:
    made, again = distil(Echo(), making), Echo()
    assert distil(again, making).facts == made.facts and again.asked == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"decoding": DecodingOptions(beam=2)}, "another beam"),
        ({"kind": "back-translation"}, "another kind"),
        ({"text": Path("other")}, "another text"),
    ],
)
def test_another_order_does_not_touch_the_folder(
    making: Making, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "other", ["something else"])
    made = distil(Echo(), making)
    before = {path.name: path.read_bytes() for path in making.folder.iterdir()}
    with pytest.raises(UsageError, match=said):
        distil(Echo(), replace(making, **change))
    assert {path.name: path.read_bytes() for path in making.folder.iterdir()} == before and made.facts["complete"]


def test_a_foreign_folder_is_left_alone(making: Making) -> None:
    making.folder.mkdir()
    (making.folder / "train.de").write_text("mine")
    with pytest.raises(UsageError, match="holds something else"):
        distil(Echo(), making)
    assert (making.folder / "train.de").read_text() == "mine" and names(making.folder) == {"train.de"}


def test_one_hypothesis_leaves_nothing_to_choose(making: Making) -> None:
    with pytest.raises(UsageError, match="give --beam 2 or more"):
        replace(making, reference=making.text, decoding=DecodingOptions(beam=1))


def test_references_of_another_length_are_refused(making: Making, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="53 lines but"):
        reference = write(tmp_path / "meant", LINES[1:])
        distil(Echo(), replace(making, reference=reference, decoding=DecodingOptions(n_best=2)))


# ---------------------------------------------------------------- the commands, with a real model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]):  # noqa: ANN201
    """Type a command; its exit code, and what it said on both streams."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWAY_WINDOW", "5")
    write(tmp_path / "text", LINES[:3])

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headway", *map(str, words), "--engine", "torch"])
        code = cli.run()
        return code, *capfd.readouterr()

    return run


def test_distill_by_command(model: Path, tmp_path: Path, typed) -> None:  # noqa: ANN001
    words = ("distill", model, "--source", "text", "--out", "made", "--target", "text", "--beam", 2)
    code, out, error = typed(*words)
    assert code == 0, error
    assert out.endswith("headway train --source made/train.en --target made/train.de --out student\n")
    assert len(read(tmp_path / "made" / "train.de")) == 3 and "chrF to text" in out
    facts = json.loads((tmp_path / "made" / FACTS).read_text())
    assert facts["complete"] and facts["order"]["n_best"] == 2 and facts["model"] == str(model)


def test_sampled_back_translation_by_command(model: Path, tmp_path: Path, typed) -> None:  # noqa: ANN001
    """The same seed draws the same; and the next command is one that can be typed."""
    drawn = []
    for folder in ("a", "b"):
        code, out, error = typed("augment", model, "--target", "text", "--out", folder, "--sample", "--seed", 1)
        assert code == 0, error
        drawn.append(read(tmp_path / folder / "train.de"))
    assert drawn[0] == drawn[1] and len(drawn[0]) == 3
    command = shlex.split(out.splitlines()[-1])
    setting = command[command.index("--set") + 1]
    run = config.from_dict(Run, config.override({"data": {"source": "s", "target": "t"}}, [setting]))
    corpus = run.pairs.corpora[0]
    assert (corpus.source, corpus.target, corpus.tag) == ("b/train.de", "b/train.en", "bt")
    assert read(Path(corpus.target)) == LINES[:3]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("distill", "nowhere", "--source", "text", "--out", "made"), "nowhere is not a folder"),
        (("distill", "MODEL", "--source", "gone", "--out", "made"), "gone"),
        (("distill", "MODEL", "--source", "text", "--out", "text"), "is a file"),
        (("distill", "MODEL", "--source", "text", "--out", "made", "--beam", 0), "beam is 0"),
        (("augment", "MODEL", "--target", "text", "--out", "made", "--tag", "b t"), "language tag 'b t'"),
        (("augment", "MODEL", "--out", "made"), "--target"),
    ],
)
def test_mistakes_are_one_line(model: Path, typed, words: tuple[object, ...], said: str) -> None:  # noqa: ANN001
    code, _, error = typed(*(model if word == "MODEL" else word for word in words))
    error = error.removeprefix("headway: engine torch (fp32): it was asked for\n")  # `typed` asks for it
    assert code == 2 and re.search(re.escape(said), error) and error.count("\n") == 1
