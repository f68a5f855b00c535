"""Classification: files read, a rule learned, many labels with a tuned threshold, scores against scikit-learn."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from typer.testing import CliRunner

import corpora
import fork_server
import labelled_corpora
from headway.cli import app
from headway.commands.evaluate import evaluate as evaluate_command
from headway.data.bucketing import Shape
from headway.data.labelled import Form, form_of, read
from headway.errors import UsageError
from headway.metrics.classes import average_precision, best_threshold, confusion, macro_f1, micro_f1
from headway.model.heads.pooling import Attention, ClassToken, Mean
from headway.model.losses import symmetric_kl
from headway.tasks.classification.classifier import Classifier, ManyLabels, OneLabel
from headway.tasks.classification.task import ClassificationTask
from headway.tasks.predictors import open_model

TASK = {"kind": "classification"}
WORDS = {"text": {"kind": "words"}}
CUTS = (",", "")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    folder = tmp_path_factory.mktemp("classifier")
    longer = {"training": {"steps": 60, "validate_every": 30}, "data": {"longest": 30}}
    whole = labelled_corpora.table(TASK, labelled_corpora.write_texts(folder), WORDS, longer)
    return folder / "model", labelled_corpora.train(folder / "model", whole)


def classifier(folder: Path) -> Classifier:
    model = open_model(folder, "cpu")
    assert isinstance(model, Classifier)
    return model


# ---------------------------------------------------------------- learning


def test_a_rule_of_order_is_learned(trained: tuple[Path, dict[str, float]]) -> None:
    assert trained[1]["accuracy"] > 90
    model = classifier(trained[0])
    good, bad, empty = model.classify(["the good and bad dog", "bad dog runs good", " "])
    assert (good.labels, bad.labels, empty.labels) == (("up",), ("down",), ())
    assert sum(good.chances.values()) == pytest.approx(1, abs=1e-4)
    assert (good.text, empty.text) == ("the good and bad dog\tup", "")


@pytest.mark.parametrize("pooling", ["class_token", "attention"])
def test_every_pooling_learns(tmp_path: Path, pooling: str) -> None:
    longer = {"training": {"steps": 60, "validate_every": 60}, "task": {**TASK, "pooling": {"kind": pooling}}}
    whole = labelled_corpora.table(TASK, labelled_corpora.write_texts(tmp_path, 300), WORDS, longer)
    assert labelled_corpora.train(tmp_path / "model", whole)["accuracy"] > 80


def test_many_labels_have_a_threshold_that_lies_in_the_folder(tmp_path: Path) -> None:
    many = {"task": {**TASK, "multi_label": True}, "training": {"steps": 60, "validate_every": 30, "best_metric": "f1"}}
    whole = labelled_corpora.table(TASK, labelled_corpora.write_many(tmp_path), WORDS, many)
    assert labelled_corpora.train(tmp_path / "model", whole)["f1"] > 85
    facts = json.loads((tmp_path / "model" / "headway.json").read_text())
    model = classifier(tmp_path / "model")
    assert model.threshold == facts["threshold"] and 0 < model.threshold < 1
    both, none = model.classify(["Anna sees Bob", "the dog"])
    assert (set(both.labels), none.labels) == ({"Anna", "Bob"}, ())
    assert json.loads(both.text) == {"text": "Anna sees Bob", "label": list(both.labels)}


def test_many_texts_at_once_are_judged_as_one_by_one(trained: tuple[Path, dict[str, float]]) -> None:
    model = classifier(trained[0])
    texts = ["good bad", "bad the dog and the cat runs home good", "", "never seen", "good " * 500]
    together = model.chances(texts)
    alone = np.concatenate([model.chances([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("kind", [Mean(), ClassToken(), Attention()], ids=lambda kind: kind.kind)
def test_pooling_does_not_see_padding(kind: Mean | ClassToken | Attention) -> None:
    pool, hidden = kind.build(8), torch.randn(2, 5, 8)
    real = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    changed = torch.where(real[..., None], hidden, torch.full_like(hidden, 9.0))
    torch.testing.assert_close(pool(hidden, real), pool(changed, real))
    torch.testing.assert_close(pool(hidden, real)[0], pool(hidden[:1, :3], real[:1, :3])[0])


def test_mean_pooling_is_a_mean() -> None:
    hidden, real = torch.randn(1, 4, 3), torch.tensor([[True, True, True, False]])
    torch.testing.assert_close(Mean().build(3)(hidden, real)[0], hidden[0, :3].mean(dim=0))


def test_the_head_is_described_with_all_its_parameters(trained: tuple[Path, dict[str, float]]) -> None:
    text = CliRunner().invoke(app, ["describe", str(trained[0])], env={"COLUMNS": "120"}).output
    count = sum(parameter.numel() for parameter in classifier(trained[0]).model.parameters())
    assert "mean of all vectors" in text and "b × 2 labels" in text and f"TextClassifier  {count:,}" in text


# ---------------------------------------------------------------- resuming


def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    change = {"task": {**TASK, "multi_label": True}, "training": {"batch": {"tokens": 128, "shapes": "bounded"}}}
    whole = labelled_corpora.table(TASK, labelled_corpora.write_many(tmp_path, 150), WORDS, change)
    run = labelled_corpora.write_config(tmp_path, whole)
    assert fork_server.run(tmp_path, "train", run, "--out", tmp_path / "whole")[0] == 0
    child = fork_server.start(tmp_path, "train", run, "--out", tmp_path / "killed")
    fork_server.wait_for(tmp_path / "killed" / "state" / "step-00000006")
    assert child.send(signal.SIGKILL, after=0.0) in (-9, 0), child.said()
    code, said = fork_server.run(tmp_path, "train", "--out", tmp_path / "killed")
    assert code == 0, said
    assert corpora.outcome(tmp_path / "killed") == corpora.outcome(tmp_path / "whole")


def test_dummy_rows_have_no_weight(tmp_path: Path) -> None:
    """Batches of few shapes are filled up; the loss is that of the real texts."""
    whole = labelled_corpora.table(
        TASK, labelled_corpora.write_texts(tmp_path, 60), WORDS, {"task": {**TASK, "word_dropout": 0.0}}
    )
    made = labelled_corpora.trainer(tmp_path / "m", whole)
    assert isinstance(made.task, ClassificationTask)
    forward = made.task.forward_pass(made.job.model.eval())
    rows = np.arange(5)
    width = int(made.task.pieces.lengths[:5].max())
    exact, padded = (
        forward(forward.batch(*made.task.fill(rows, Shape(count, width + more, 1)))).loss(0.0)
        for count, more in ((5, 0), (8, 3))
    )
    for one, two in zip(exact, padded, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


# ---------------------------------------------------------------- scores


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 30))
def test_scores_are_those_of_scikit_learn(seed: int, labels: int, count: int) -> None:
    dice = np.random.default_rng(seed)
    chances = dice.choice(np.linspace(0, 1, 7), (count, labels))  # with ties
    meant = dice.random((count, labels)) < 0.5
    said = chances >= 0.5
    used = np.flatnonzero(said.any(0) | meant.any(0))
    score = partial(metrics.f1_score, meant, said, zero_division=0)  # pyright: ignore[reportArgumentType]
    expected = score(average="macro", labels=used) if len(used) else 0.0
    assert macro_f1(said, meant) == pytest.approx(expected)
    assert micro_f1(said, meant) == pytest.approx(score(average="micro"))
    if meant[:, 0].any():
        ours = average_precision(chances[:, 0], meant[:, 0])
        assert ours == pytest.approx(metrics.average_precision_score(meant[:, 0], chances[:, 0]))
    one, two = dice.integers(labels, size=(2, count))
    np.testing.assert_array_equal(confusion(one, two, labels), metrics.confusion_matrix(two, one, labels=range(labels)))


def test_the_threshold_is_the_best_of_those_tried() -> None:
    dice = np.random.default_rng(0)
    meant = dice.random((200, 3)) < 0.3
    chances = np.clip(0.3 * meant + 0.4 * dice.random((200, 3)), 0, 1)
    best = best_threshold(chances, meant)
    scores = [macro_f1(chances >= place, meant) for place in np.arange(0.05, 0.96, 0.05)]
    assert macro_f1(chances >= best, meant) == pytest.approx(max(scores))


# ---------------------------------------------------------------- files


def form(name: str, **changes: Any) -> Form:
    return form_of(
        Path(name), "auto", changes.get("fields", ("", "")), changes.get("many", False), changes.get("cuts", CUTS)
    )


@pytest.mark.parametrize(
    ("name", "text", "changes", "labels"),
    [
        ("a.tsv", "good film\tup\n", {}, ("up",)),
        ("a.tsv", "7\tup\tgood film\n", {"fields": ("3", "2")}, ("up",)),
        ("a.txt", "up good film\n", {}, ("up",)),
        ("a.txt", "__label__up good film\n", {}, ("up",)),
        ("a.train", "NUM:count good film\n", {"cuts": (",", ":")}, ("NUM",)),
        ("a.jsonl", '{"text": "good film", "label": "up"}\n', {}, ("up",)),
        ("a.jsonl", '{"t": "good film", "l": ["a", "b"]}\n', {"fields": ("t", "l"), "many": True}, ("a", "b")),
        ("a.tsv", "good film\t1,2\n", {"many": True}, ("1", "2")),
        ("a.tsv", "good film\t\n", {"many": True}, ()),
    ],
)
def test_files_are_read_by_their_names(
    tmp_path: Path, name: str, text: str, changes: dict[str, Any], labels: tuple[str, ...]
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    found = next(read(path, form(name, **changes)))
    assert (found.text, found.labels, found.line) == ("good film", labels, 1)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.tsv", "a\tup\nb\n", "x.tsv:2: 1 column, but at least 2 are needed: the text in 1, its label in 2"),
        ("x.tsv", "a\tup\nb\t\n", "x.tsv:2: 0 labels, but one is expected; for several set task.multi_label = true"),
        ("x.tsv", "a\tup\nb\tc\tup\n", "x.tsv:2: 3 columns, but 2 in the first line: is a tab in the text?"),
        ("x.jsonl", '{"text": "a", "label": null}\n', "x.jsonl:1: 'label' is null; it must be a string or a number"),
        ("x.jsonl", '{"text": "a", "label": {}}\n', "x.jsonl:1: 'label' is {}; it must be a string or a number"),
        ("x.jsonl", '{"text": "a"}\n', "x.jsonl:1: no 'text' or no 'label'; the fields are text"),
        ("x.jsonl", "nonsense\n", "x.jsonl:1: not JSON"),
        ("x.jsonl", '{"text": "a", "label": ["u", "v"]}\n', "x.jsonl:1: 'label' is a list, but one label is expected"),
        ("x.tsv", "a\tup\nb\tup\n", "all texts have the label 'up'; two are wanted at least"),
        ("x.tsv", "\tup\n", "no text with a label is in it"),
    ],
)
def test_a_bad_file_is_told_in_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        labelled_corpora.trainer(tmp_path / "m", labelled_corpora.table(TASK, path, WORDS))
    assert said in str(error.value) and "\n" not in str(error.value)


def test_empty_and_long_texts_are_counted_and_told(tmp_path: Path) -> None:
    path = labelled_corpora.write_texts(tmp_path, 60)
    with path.open("a", encoding="utf-8") as file:
        file.write(" \tup\n" + "good " * 300 + "\tup\n")
    roomy = {"data": {"dev_sentences": 0}, "training": {"batch": {"tokens": 512}}}
    made = labelled_corpora.trainer(tmp_path / "m", labelled_corpora.table(TASK, path, WORDS, roomy))
    facts = made.task.facts()
    assert (facts["texts"], facts["empty"], facts["cut"]) == (61, 1, 0)
    short = {"data": {"dev_sentences": 0, "longest": 100}}
    assert (
        labelled_corpora.trainer(tmp_path / "n", labelled_corpora.table(TASK, path, WORDS, short)).task.facts()["cut"]
        == 1
    )
    assert made.run.task.look(made.run.data, force=False, seed=made.run.seed) == [
        f"doctor: 1 texts are empty and left out ({path}:61)"
    ]


def test_a_label_that_the_model_cannot_say_has_no_precision(
    tmp_path: Path, trained: tuple[Path, dict[str, float]]
) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("good dog\tsideways\nbad dog\tsideways\n", encoding="utf-8")
    found = classifier(trained[0]).evaluate([path])
    assert [found.scores[name].value for name in ("accuracy", "f1", "ap")] == [0, 0, 0]


def test_texts_that_are_cut_are_told_at_evaluation(tmp_path: Path, trained: tuple[Path, dict[str, float]]) -> None:
    path, model = tmp_path / "x.tsv", classifier(trained[0])
    path.write_text(f"good dog\tup\n{'good ' * model.longest}\tup\n", encoding="utf-8")
    most = model.longest - 1
    assert model.evaluate([path]).notes == (f"{path}:2: 1 texts are longer than {most:,} pieces and were cut there",)
    short, long = model.classify(["good dog", "good " * model.longest])
    assert ("cut" in short.to_dict(), long.to_dict()["cut"]) == (False, True)


def test_texts_that_are_cut_are_told_at_prediction(tmp_path: Path, trained: tuple[Path, dict[str, float]]) -> None:
    path, most = tmp_path / "x.txt", classifier(trained[0]).longest
    path.write_text(f"good dog\n{'good ' * most}\n", encoding="utf-8")
    told = CliRunner().invoke(app, ["predict", str(trained[0]), "--input", str(path)])
    assert told.stderr == "note: 1 texts are longer than the model reads, and were cut\n"
    assert len(told.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": 3}, "--limit: for translators"),
        ({"output": Path("o"), "resamples": 10}, "--resamples, --output: for translators"),
        ({"source": Path("y.tsv")}, "x.tsv and --source y.tsv: name the test files once"),
    ],
)
def test_options_of_translators_are_not_passed_over(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        evaluate_command(Path("model"), [Path("x.tsv")], **given)
    assert str(error.value).startswith(said)


def test_unknown_labels_and_empty_texts_at_evaluation(tmp_path: Path, trained: tuple[Path, dict[str, float]]) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("good dog bad\tup\n\tup\nbad dog good\tsideways\n", encoding="utf-8")
    found = classifier(trained[0]).evaluate([path])
    assert (found.count, found.scores["accuracy"].value) == (2, 50)
    assert found.notes[0].startswith(f"{path}:3: 1 texts have a label that the model has never seen (sideways)")
    assert found.notes[1] == f"{path}:2: 1 empty texts are left out"


# ---------------------------------------------------------------- the command line


def test_predict_and_evaluate_from_the_command_line(tmp_path: Path, trained: tuple[Path, dict[str, float]]) -> None:
    text, picture = tmp_path / "in.txt", tmp_path / "confusion.png"
    text.write_text("good dog bad\n\nbad dog good\n", encoding="utf-8")
    code, said = fork_server.run(tmp_path, "predict", trained[0], "--input", text, "--output", tmp_path / "out.tsv")
    assert code == 0, said
    assert (tmp_path / "out.tsv").read_text() == "good dog bad\tup\n\nbad dog good\tdown\n"
    out = ("--picture", picture, "--html", tmp_path / "o.html", "--json", tmp_path / "o.json")
    code, said = fork_server.run(tmp_path, "evaluate", trained[0], tmp_path / "out.tsv", *out)
    assert code == 0, said
    assert picture.read_bytes().startswith(b"\x89PNG") and "confusion" in (tmp_path / "o.html").read_text()
    assert json.loads((tmp_path / "o.json").read_text())["scores"]["accuracy"]["value"] == 100
    assert fork_server.run(tmp_path, "predict", trained[0], "--input", text, "--layout", "columns")[0] == 2


def test_symmetric_kl_is_half_of_both_divergences() -> None:
    first, second = torch.randn(2, 5, 4, dtype=torch.float64)
    p, q = (torch.distributions.Categorical(logits=x) for x in (first, second))
    both = torch.distributions.kl_divergence(p, q) + torch.distributions.kl_divergence(q, p)
    torch.testing.assert_close(symmetric_kl(first, second, OneLabel().chances), both / 2)
    p, q = (torch.distributions.Bernoulli(logits=x) for x in (first, second))
    both = torch.distributions.kl_divergence(p, q) + torch.distributions.kl_divergence(q, p)
    torch.testing.assert_close(symmetric_kl(first, second, ManyLabels().chances), both.sum(dim=1) / 2)
