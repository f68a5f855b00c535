"""Tagging: files read, labels aligned with pieces, a rule learned, a killed run resumed, bad files refused."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import annotations
import corpora
import nursery
from headway import config
from headway.cli import app
from headway.data.formats import lines
from headway.data.tagged import Layout, layout_of, read, sentences
from headway.errors import UsageError
from headway.model.classifiers import WordClassifier
from headway.tasks.predictors import open_model
from headway.tasks.run import Run
from headway.tasks.tagging.tagger import Tagger
from headway.tasks.tagging.task import TaggingTask
from headway.tasks.tagging.words import Pieces, reader_for
from headway.text.characters import Characters
from headway.text.subword import Subword
from headway.text.tokenizer import Text
from headway.text.words import Words

TASK = {"kind": "tagging"}
WORDS = ["Anna", "sees", "New", "York", "unbelievably", "often"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float]]:
    folder = tmp_path_factory.mktemp("tagger")
    letters = {"task": {**TASK, "letters": {"kind": "cnn", "width": 8}}}
    longer = {"training": {"steps": 90, "validate_every": 45}, "data": {"longest": 40}}
    whole = annotations.table(TASK, annotations.write_tagged(folder), letters, longer)
    return folder / "model", annotations.train(folder / "model", whole)


def tagger(folder: Path) -> Tagger:
    model = open_model(folder, "cpu")
    assert isinstance(model, Tagger)
    return model


# ---------------------------------------------------------------- learning


def test_a_rule_of_context_is_learned(trained: tuple[Path, dict[str, float]]) -> None:
    assert trained[1]["f1"] > 97 and trained[1]["accuracy"] > 97
    found = tagger(trained[0]).tag([["by", "Karl", "in", "Karl", "Mia", "dog"]])[0]
    assert found.labels == ("O", "B-PER", "O", "B-LOC", "I-LOC", "O")
    assert [(span["kind"], span["text"]) for span in found.to_dict()["spans"]] == [("PER", "Karl"), ("LOC", "Karl Mia")]


@pytest.mark.parametrize(
    "changes",
    [
        {"task": {**TASK, "head": {"kind": "softmax"}}, "text": {"kind": "characters"}},
        {
            "task": {**TASK, "letters": {"kind": "transformer", "width": 8, "heads": 2}},
            "text": {"kind": "subword", "size": 320},
        },
    ],
    ids=["softmax over characters", "subwords, letters by a transformer"],
)
def test_every_kind_of_text_and_head_learns(tmp_path: Path, changes: dict[str, Any]) -> None:
    longer = {"training": {"steps": 60, "validate_every": 60}}
    whole = annotations.table(TASK, annotations.write_tagged(tmp_path, 200), changes, longer)
    assert annotations.train(tmp_path / "model", whole)["f1"] > 60


def test_many_sentences_at_once_are_tagged_as_one_by_one(trained: tuple[Path, dict[str, float]]) -> None:
    model = tagger(trained[0])
    given = [["by", "Anna"], ["in", "Bob", "Tom"] * 4, ["dog"], ["never", "seen", "by", "me"]]
    for words, together in zip(given, model.tag(given), strict=True):
        alone = model.tag([words])[0]
        assert alone.labels == together.labels
        assert alone.probabilities == pytest.approx(together.probabilities, abs=1e-4)


def test_a_sentence_of_any_length_is_tagged(trained: tuple[Path, dict[str, float]]) -> None:
    """Longer than the model reads at once: it is cut between words, and every word has its label."""
    words = ["by", "Karl", "in", "Karl", "dog"] * 60
    found = tagger(trained[0]).tag([words, []])
    assert len(found[0].labels) == len(words) and found[1].labels == ()
    right = ["O", "B-PER", "O", "B-LOC", "O"] * 60
    assert sum(a == b for a, b in zip(found[0].labels, right, strict=True)) > 0.9 * len(words)


def test_scores_of_the_folder_are_those_of_the_validation(
    tmp_path: Path, trained: tuple[Path, dict[str, float]]
) -> None:
    test = annotations.write_tagged(tmp_path, 50, seed=9, name="test.conll")
    found = tagger(trained[0]).evaluate([test])
    assert found.count == 50 and found.scores["f1"].value > 95
    assert {row[0] for row in found.tables[0].rows} == {"PER", "LOC"}
    assert json.loads(json.dumps(found.to_dict()))["count"] == 50


def test_only_the_measures_asked_for_are_told(trained: tuple[Path, dict[str, float]], tmp_path: Path) -> None:
    test = str(annotations.write_tagged(tmp_path, 20, seed=5, name="test.conll"))
    told = CliRunner().invoke(app, ["evaluate", str(trained[0]), test, "--metrics", "f1"])
    assert told.exit_code == 0 and "f1" in told.output and "accuracy" not in told.output
    refused = CliRunner().invoke(app, ["evaluate", str(trained[0]), test, "--metrics", "f1,bleu"])
    assert isinstance(refused.exception, UsageError)
    assert str(refused.exception).startswith("--metrics bleu:") and "f1" in str(refused.exception)


def test_the_head_is_described_with_all_its_parameters(trained: tuple[Path, dict[str, float]]) -> None:
    text = CliRunner().invoke(app, ["describe", str(trained[0])], env={"COLUMNS": "120"}).output
    count = sum(parameter.numel() for parameter in tagger(trained[0]).model.parameters())
    assert "conditional random field" in text and "letters" in text and f"WordClassifier  {count:,}" in text


# ---------------------------------------------------------------- alignment


@pytest.mark.parametrize("kind", [Words(), Characters(), Subword(size=300)], ids=["words", "characters", "subword"])
def test_a_words_first_piece_stands_where_it_is_said_to_stand(kind: Text) -> None:
    text = kind.learn([" ".join(WORDS)] * 20)
    reader = reader_for(Pieces(text), kind, spaced=True, longest=1000, letters=0)
    stretch = reader.stretches([WORDS])[0]
    assert len(stretch.first) == len(WORDS) and stretch.first == sorted(set(stretch.first))
    for number, word in enumerate(WORDS):
        end = stretch.first[number + 1] if number + 1 < len(WORDS) else len(stretch.pieces)
        pieces = stretch.pieces[stretch.first[number] : end]
        assert text.decode(pieces).strip() == word


@pytest.mark.parametrize("longest", [4, 7, 30])
def test_cut_sentences_keep_every_word_once(longest: int) -> None:
    kind = Characters()
    reader = reader_for(Pieces(kind.learn([" ".join(WORDS)])), kind, spaced=True, longest=longest, letters=0)
    parts = reader.stretches([WORDS, WORDS[:1], []])
    assert [word for part in parts for word in part.words] == [*WORDS, WORDS[0]]
    assert all(len(part.pieces) <= longest for part in parts)
    assert all(len(part.first) == len(part.words) for part in parts)


def test_unknown_words_and_odd_ones_have_a_piece() -> None:
    kind = Words()
    reader = reader_for(Pieces(kind.learn(["a b"])), kind, spaced=True, longest=9, letters=0)
    assert [len(reader.ids(word)) for word in ("a", "never", "\u00a0", "1 000")] == [1, 1, 1, 2]


def test_padding_and_neighbours_in_the_batch_change_nothing(tmp_path: Path) -> None:
    made = annotations.trainer(tmp_path / "m", annotations.table(TASK, annotations.write_tagged(tmp_path, 60)))
    assert isinstance(made.task, TaggingTask)
    model, reader = made.job.model.eval(), made.task.reader
    assert isinstance(model, WordClassifier)
    short, long = reader.stretches([["by", "Anna"], ["in", "Bob", "dog", "cat", "and"]])
    device = torch.device("cpu")
    alone, both = model(*reader.tensors([short], device)), model(*reader.tensors([short, long], device))
    torch.testing.assert_close(alone[0], both[0, :2], atol=1e-5, rtol=1e-5)


# ---------------------------------------------------------------- resuming


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, number: signal.Signals, code: int) -> None:
    letters = {"task": {**TASK, "letters": {"kind": "cnn", "width": 8}}, "training": {"averaging": {"kind": "tail"}}}
    whole = annotations.table(TASK, annotations.write_tagged(tmp_path, 120), letters)
    run = annotations.write_config(tmp_path, whole)
    assert nursery.run(tmp_path, "train", run, "--out", tmp_path / "whole")[0] == 0
    child = nursery.start(tmp_path, "train", run, "--out", tmp_path / "killed")
    nursery.wait_for(tmp_path / "killed" / "state" / "step-00000006")
    assert child.send(number, after=0.0) in (code, 0), child.said()
    finished, said = nursery.run(tmp_path, "train", "--out", tmp_path / "killed")
    assert finished == 0, said
    assert corpora.outcome(tmp_path / "killed") == corpora.outcome(tmp_path / "whole")


# ---------------------------------------------------------------- files


def test_columns_are_read_by_number_and_by_name(tmp_path: Path) -> None:
    conll = tmp_path / "a.conll"
    conll.write_text("-DOCSTART- -X- O\n\nU.N. NNP B-ORG\nofficial NN O\n\n\nhe PRP O\n", encoding="utf-8")
    found = list(read(conll, layout_of(conll, None, None, "")))
    assert [(one.words, one.labels, one.line) for one in found] == [
        (("U.N.", "official"), ("B-ORG", "O"), 3),
        (("he",), ("O",), 7),
    ]
    assert next(read(conll, layout_of(conll, None, 2, ""))).labels == ("NNP", "NN")
    assert next(read(conll, layout_of(conll, None, -1, "[.]$"))).words == ("U.N", "official")
    conll.write_text("-DOCSTART-\nU.N. NNP B-ORG\n", encoding="utf-8")  # neither columns nor an empty line
    assert [one.words for one in read(conll, layout_of(conll, None, None, ""))] == [("U.N.",)]


def test_universal_dependencies_are_read_without_ranges_and_empty_nodes(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    rows = ["1-2\tdon't\t_\t_", "1\tdo\tdo\tAUX", "2\tn't\tnot\tPART", "2.1\tx\t_\t_", "3\t1 000\t_\tNUM"]
    path.write_text("# text = x\n" + "".join(f"{row}\t_\t_\t_\t_\t_\t_\n" for row in rows) + "\n", encoding="utf-8")
    layout = layout_of(path, None, None, "")
    one = next(read(path, layout))
    assert (one.words, one.labels) == (("do", "n't", "1 000"), ("AUX", "PART", "NUM"))
    written = layout.write(one.words, one.labels)
    (tmp_path / "b.conllu").write_text(written, encoding="utf-8")
    again = next(read(tmp_path / "b.conllu", layout))
    assert (again.words, again.labels) == (one.words, one.labels)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path, layout = tmp_path / "x.conll", Layout()
    path.write_text(layout.write(["a", "é", "\u3000"], ["O", "B-X", "O"]), encoding="utf-8")
    one = next(read(path, layout))
    assert (one.words, one.labels) == (("a", "é", "\u3000"), ("O", "B-X", "O"))
    plain = next(sentences(lines(path), layout, "x", labelled=False))
    assert (plain.words, plain.labels) == (one.words, ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Anna B-PER\nsees\n", "x.conll:2: 1 column, at least 2 are wanted: a word and its label"),
        ("Anna N B-PER\nsees V\n", "x.conll:2: 2 columns, but 3 in the first line; mend it, or say where labels stand"),
        ("Anna B-PER\nsees V O\n", "x.conll:2: 3 columns, but 2 in the first line"),
        ("Anna\tB-PER\nsees\t\n", "x.conll:2: the label of 'sees' is empty"),
        ("\n\n", "x.conll:1: no sentence"),
        ("", "x.conll:1: the file is empty"),
        ("Anna \xff O\n", "x.conll:1: not UTF-8 at byte 6"),
    ],
)
def test_a_bad_file_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.conll"
    path.write_bytes(text.encode("latin-1"))
    code, told = nursery.run(
        tmp_path, "train", "--set", 'task.kind="tagging"', "--set", f"data.train={path}", "--out", tmp_path / "m"
    )
    assert code == 2 and said in told.splitlines()[-1], told


def test_broken_spans_are_repaired_counted_and_told(tmp_path: Path) -> None:
    path = annotations.write_tagged(tmp_path, 60)
    text = path.read_text(encoding="utf-8")
    path.write_text(f"Anna I-PER\nBob I-PER\nin O\nTom I-LOC\n\n{text}", encoding="utf-8")
    settings = config.from_dict(Run, annotations.table(TASK, path)).task
    note = settings.look(config.from_dict(Run, annotations.table(TASK, path)).data, force=False, seed=1)[0]
    assert note.startswith(f"doctor: 1 sentences have spans that are spelled wrongly ({path}:1)")
    made = annotations.trainer(tmp_path / "m", annotations.table(TASK, path, {"data": {"dev_sentences": 0}}))
    assert isinstance(made.task, TaggingTask) and made.task.facts()["repaired"] == 1
    assert made.task.found.train[0].labels == ("B-PER", "I-PER", "O", "B-LOC")


def test_lines_may_differ_where_columns_are_counted_from_the_left(tmp_path: Path) -> None:
    path = tmp_path / "x.conll"
    path.write_text("Anna B-PER N extra\nsees O V\n", encoding="utf-8")
    assert [one.labels for one in read(path, Layout(label=2))] == [("B-PER", "O")]


def test_a_part_of_speech_that_is_not_given_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.conllu"
    path.write_text("1\tAnna\t_\t_" + "\t_" * 6 + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"x.conllu:1: the label of 'Anna' is empty"):
        list(read(path, layout_of(path, None, None, "")))
    assert [one.labels for one in read(path, layout_of(path, None, 6, ""))] == [("_",)]  # features: there are none


def test_one_odd_label_does_not_silence_f1(tmp_path: Path) -> None:
    path = annotations.write_tagged(tmp_path, 60)
    with path.open("a", encoding="utf-8") as file:
        file.write("\nzebra O\nruns X\n")
    line = len(path.read_text(encoding="utf-8").splitlines())
    run = config.from_dict(Run, annotations.table(TASK, path))
    (note,) = [note for note in run.task.look(run.data, force=False, seed=1) if "no label of" in note]
    assert note.startswith(
        f"doctor: {path}:{line}: 'X' is no label of bio, as nearly all others are; so labels spell no"
    )
    for scheme in ("none", "bio"):
        asked = config.from_dict(Run, annotations.table({**TASK, "scheme": scheme}, path))
        assert not [note for note in asked.task.look(asked.data, force=False, seed=1) if "no label of" in note]


def test_notes_are_of_the_split_that_is_trained_on(tmp_path: Path) -> None:
    path = annotations.write_tagged(tmp_path, 60)
    made = annotations.trainer(tmp_path / "m", annotations.table(TASK, path, {"seed": 7}))
    odd = made.task.found.dev[0]
    assert isinstance(made.task, TaggingTask)
    text = path.read_text(encoding="utf-8").splitlines()
    text[odd.line - 1] = f"{odd.words[0]} B-ZOO"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    notes = made.run.task.look(made.run.data, force=False, seed=7)
    assert any("validation label 'B-ZOO' is not in the training file" in note for note in notes)


def test_unknown_labels_at_evaluation_count_as_wrong_and_are_told(
    tmp_path: Path, trained: tuple[Path, dict[str, float]]
) -> None:
    path = tmp_path / "x.conll"
    path.write_text("by O\nAnna B-PER\nin O\nTom B-ZOO\n", encoding="utf-8")
    found = tagger(trained[0]).evaluate([path])
    assert found.scores["recall"].value == 50
    assert found.notes[0].startswith(f"{path}:1: 1 words have a label that the model has never seen (B-ZOO)")


def test_a_missing_setting_or_a_wrong_one_is_named(tmp_path: Path) -> None:
    path = annotations.write_tagged(tmp_path, 40)
    for change, said in [
        ({"data": {"kind": "pairs", "source": "a", "target": "b"}}, "set data.train, not data.source"),
        ({"training": {"best_metric": "bleu"}}, "training.best_metric is 'bleu'; this task measures loss, f1"),
        ({"model": {"kind": "language_model"}}, 'tagging needs a model that reads (model.kind = "encoder")'),
    ]:
        whole = annotations.table(TASK, path) | change if "data" in change else annotations.table(TASK, path, change)
        if "model" in change:
            whole = {**whole, "model": change["model"]}
        with pytest.raises(UsageError, match=said.replace("(", r"\(").replace(")", r"\)")):
            annotations.trainer(tmp_path / "m", whole)


# ---------------------------------------------------------------- the command line


def test_predict_and_evaluate_from_the_command_line(tmp_path: Path, trained: tuple[Path, dict[str, float]]) -> None:
    text, columns = tmp_path / "in.txt", tmp_path / "in.conll"
    text.write_text("by Karl\n\nin Karl\n", encoding="utf-8")
    columns.write_text("by\nKarl\n\nin\nKarl\n", encoding="utf-8")
    out = tmp_path / "out.conll"
    code, said = nursery.run(tmp_path, "predict", trained[0], "--input", text, "--output", out)
    assert code == 0, said
    assert out.read_text(encoding="utf-8") == "by\tO\nKarl\tB-PER\n\n\nin\tO\nKarl\tB-LOC\n\n"
    code, said = nursery.run(tmp_path, "predict", trained[0], "--input", columns, "--json")
    rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [row["labels"] for row in rows] == [["O", "B-PER"], ["O", "B-LOC"]]
    assert all(0 < chance <= 1 for row in rows for chance in row["probabilities"])
    code, said = nursery.run(tmp_path, "evaluate", trained[0], out, "--json", tmp_path / "scores.json")
    assert code == 0 and json.loads((tmp_path / "scores.json").read_text())["scores"]["f1"]["value"] == 100
    code, said = nursery.run(tmp_path, "translate", trained[0], "--input", text)
    assert code == 2 and "not a translator" in said


def test_six_lines_are_a_run(tmp_path: Path) -> None:
    """Sizes, letters and what is watched are proposed; going on needs the folder alone."""
    path = annotations.write_tagged(tmp_path, 60)
    run = tmp_path / "six.toml"
    run.write_text(
        f'task = {{ kind = "tagging" }}\n[data]\ntrain = "{path}"\n[training]\nsteps = 4\n', encoding="utf-8"
    )
    code, said = nursery.run(tmp_path, "train", run, "--out", tmp_path / "m")
    assert code == 0, said
    made = config.load(Run, tmp_path / "m" / "config.toml")
    assert (made.training.best_metric, made.model.positions.kind, made.training.objective.label_smoothing) == (
        "f1",
        "tener",
        0.0,
    )
    assert made.task == replace(made.task, kind="tagging") and "letters" in (tmp_path / "m" / "config.toml").read_text()
    code, said = nursery.run(tmp_path, "train", "--out", tmp_path / "m", "--steps", "6")
    assert code == 0 and "ended at step 6" in said
    assert nursery.run(tmp_path, "doctor", run)[1].splitlines()[-1] == "fit for training"
