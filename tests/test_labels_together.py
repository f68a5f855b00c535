"""Taggers and classifiers that decide together: scores and chances on average, labels that may stand side by side."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import annotations
from headway.cli import app
from headway.errors import UsageError
from headway.model.crf import sequence_score
from headway.tasks.classification.classifier import Classifier
from headway.tasks.predictors import open_model, open_together
from headway.tasks.tagging.tagger import Tagger
from trades import toy_folders

TAGGING, CLASSES, MANY = (
    {"kind": "tagging"},
    {"kind": "classification"},
    {"kind": "classification", "multi_label": True},
)
SENTENCES = [["by", "Karl"], [], ["in", "Mia", "Tom"], ["dog", "in", "Anna", "Bob", "by", "Lea"]]
TEXTS = ["the good and bad dog", "bad dog runs good", " "]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Two of each task, hardly trained so that they disagree; the second tagger reads letters."""
    place = tmp_path_factory.mktemp("together")
    files = {
        "tagger": (TAGGING, annotations.write_tagged(place, 80)),
        "classifier": (CLASSES, annotations.write_texts(place, 80)),
        "many": (MANY, annotations.write_many(place, 80)),
    }
    found: dict[str, list[Path]] = {name: [] for name in files}
    for (name, (task, path)), second in product(files.items(), (False, True)):
        text = "characters" if second and name == "tagger" else "words"
        changes = {"text": {"kind": text}, "training": {"steps": 6, "validate_every": 6}, "seed": 1 + second}
        annotations.train(place / f"{name}-{second}", annotations.table(task, path, changes))
        found[name].append(place / f"{name}-{second}")
    return found


def test_the_labels_of_taggers_are_the_best_sequence_by_mean_scores(folders: dict[str, list[Path]]) -> None:
    """Against all sequences, each scored by each model; their labels stand in another order."""
    first, second = folders["tagger"]
    together = open_together(first, [second], "cpu")
    members = [one for one in (open_model(folder, "cpu") for folder in (first, second)) if isinstance(one, Tagger)]
    assert isinstance(together, Tagger)
    names, follows = together.labelling.labels, together.labelling.scheme.follows
    for words, found in zip(SENTENCES, together.tag(SENTENCES), strict=True):
        allowed = [
            path
            for path in product(names, repeat=len(words))
            if all(follows(one, two) for one, two in pairwise((None, *path, None)) if words)
        ]
        scores = torch.stack([scores_of(member, words, allowed) for member in members]).mean(dim=0)
        assert found.labels == allowed[int(scores.argmax())]
        chances = scores.softmax(dim=0)
        for word, (label, chance) in enumerate(zip(found.labels, found.probabilities, strict=True)):
            same = torch.tensor([path[word] == label for path in allowed])
            assert chance == pytest.approx(float(chances[same].sum()), abs=1e-4)


def scores_of(tagger: Tagger, words: list[str], paths: list[tuple[str, ...]]) -> Tensor:
    """Of whole sequences of labels."""
    numbers = {label: number for number, label in enumerate(tagger.labelling.labels)}
    labels = torch.tensor([[numbers[label] for label in path] for path in paths]).reshape(len(paths), len(words))
    if not words:
        return torch.zeros(len(paths))
    scores = tagger.scores([words])[0].expand(len(paths), -1, -1)
    return sequence_score(scores, labels, torch.ones_like(labels, dtype=torch.bool), tagger.model.head.chain()).detach()


@pytest.mark.parametrize("name", ["classifier", "many"])
def test_classifiers_agree_on_mean_chances(folders: dict[str, list[Path]], name: str) -> None:
    together, *alone = (
        open_together(folders[name][0], folders[name][1:], "cpu"),
        *(open_model(one, "cpu") for one in folders[name]),
    )
    assert isinstance(together, Classifier)
    members = [one for one in alone if isinstance(one, Classifier)]
    assert together.threshold == pytest.approx(sum(one.threshold for one in members) / 2)
    for found, first, second in zip(*(one.classify(TEXTS) for one in (together, *members)), strict=True):
        mean = {label: (chance + second.chances[label]) / 2 for label, chance in first.chances.items()}
        assert found.chances == pytest.approx(mean, abs=2e-5)
        highest = max(found.chances.values())
        chosen = {
            label for label, chance in found.chances.items() if chance >= (highest, together.threshold)[name == "many"]
        }
        assert set(found.labels) == (chosen if found.source.strip() else set())


@pytest.mark.parametrize("name", ["tagger", "classifier"])
def test_a_model_beside_itself_says_what_it_says_alone(folders: dict[str, list[Path]], name: str) -> None:
    folder = folders[name][0]
    twice, once = open_together(folder, [folder], "cpu"), open_model(folder, "cpu")
    for lines in (["by Karl in Mia", "good dog bad", ""], [""]):
        for ours, plain in zip(twice.predict(lines), once.predict(lines), strict=True):
            assert ours.text == plain.text


@pytest.mark.parametrize("name", ["tagger", "classifier"])
def test_the_commands_take_them(folders: dict[str, list[Path]], name: str, tmp_path: Path) -> None:
    write = annotations.write_tagged if name == "tagger" else annotations.write_texts
    test, (first, second) = write(tmp_path, 30, seed=9), folders[name]
    told = CliRunner().invoke(app, ["evaluate", str(first), str(test), "--with", str(second), "--device", "cpu"])
    assert told.exit_code == 0, told.output
    alone = CliRunner().invoke(app, ["evaluate", str(first), str(test), "--device", "cpu"])
    assert told.output != alone.output and first.name in alone.output
    assert second.name in told.output and second.name not in alone.output
    (tmp_path / "text").write_text("by Karl in Mia\n", encoding="utf-8")
    said = CliRunner().invoke(app, ["predict", str(first), "--with", str(second), "--input", str(tmp_path / "text")])
    assert said.exit_code == 0 and "Karl" in said.output


def test_another_task_or_other_labels_are_refused(folders: dict[str, list[Path]], tmp_path: Path) -> None:
    tagger, classifier = folders["tagger"][0], folders["classifier"][0]
    with pytest.raises(UsageError, match="its task is not that of"):
        open_together(tagger, [classifier], "cpu")
    few = annotations.write_texts(tmp_path, 40)
    few.write_text(few.read_text().replace("\tup", "\tgood"))
    annotations.train(tmp_path / "other", annotations.table(CLASSES, few, {"text": {"kind": "words"}}))
    with pytest.raises(UsageError, match="other: its labels, or the form of its files, are not those of"):
        open_together(classifier, [tmp_path / "other"], "cpu")


def test_language_models_are_refused(tmp_path: Path) -> None:
    folder = toy_folders(tmp_path, ["writer"])["writer"]
    with pytest.raises(UsageError, match="--with is for translators, taggers and classifiers; this is a language"):
        open_together(folder, [folder], "cpu")
