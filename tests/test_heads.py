"""Heads: habits from made-up weights, importance from a model changed by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
import typer
from torch import Tensor
from typer.testing import CliRunner

from headway.commands.heads import heads
from headway.errors import UsageError
from headway.inspection.heads import Habits, average, habits, rarity
from headway.model.hooks import attention_layers
from headway.tasks.translation.ablation_pairs import Pairs
from headway.tasks.translation.head_survey import measures, survey
from headway.text.vocabulary import EOS
from model_folders import TEXT, random_folder
from random_translators import made, pieces

LENGTH = 9
COMMON = torch.arange(LENGTH).flip(0)  # the first key is the rarest


def habit(weights: Tensor, kind: str = "self", sink: int = -1) -> Habits:
    return habits(weights[None, None].float(), kind, COMMON, sink)


def only(distance: int) -> Tensor:
    """All weight at one distance; at itself where nothing is there."""
    rows = torch.arange(LENGTH)
    places = torch.where((rows + distance >= 0) & (rows + distance < LENGTH), rows + distance, rows)
    return torch.nn.functional.one_hot(places, LENGTH)


@pytest.mark.parametrize(
    ("weights", "label"),
    [
        (only(-1), "previous"),
        (only(1), "next"),
        (only(0), "diagonal"),
        (only(-3), "position"),
        (torch.nn.functional.one_hot(torch.full((LENGTH,), LENGTH - 1)), "sink"),
        (torch.nn.functional.one_hot(torch.zeros(LENGTH, dtype=torch.long), LENGTH), "rare"),
        (torch.full((LENGTH, LENGTH), 1 / LENGTH), "broad"),
        (torch.nn.functional.one_hot(torch.arange(LENGTH) * 4 % LENGTH, LENGTH), "mixed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_head_is_named_after_what_it_does(weights: Tensor, label: str) -> None:
    assert habit(weights).label(0, 0) == label


def test_a_diagonal_across_languages_is_stretched() -> None:
    places = torch.tensor([0, 1, 3, 4, 5, 7, 8])  # seven words of output for nine of source
    assert habit(torch.nn.functional.one_hot(places, LENGTH), "cross").label(0, 0) == "diagonal"
    assert habit(torch.nn.functional.one_hot(places.flip(0), LENGTH), "cross").label(0, 0) != "diagonal"


def test_entropy_and_distance_are_those_of_the_formula() -> None:
    weights = torch.rand(LENGTH, LENGTH).softmax(-1)
    found = habit(weights)
    by_hand = [[float(w) for w in row] for row in weights]
    entropy = -sum(w * math.log(w) for row in by_hand for w in row) / LENGTH
    distance = sum(w * abs(q - k) for q, row in enumerate(by_hand) for k, w in enumerate(row)) / LENGTH
    assert float(found.entropy) == pytest.approx(entropy, abs=1e-5)
    assert float(found.distance) == pytest.approx(distance, abs=1e-5)


def test_queries_count_alike_in_an_average() -> None:
    weights = torch.rand(1, 2, 6, 5).softmax(-1)
    parts = [habits(weights[:, :, :2], "cross", COMMON[:5], -1), habits(weights[:, :, 2:], "cross", COMMON[:5], -1)]
    whole = habits(weights, "cross", COMMON[:5], -1)
    torch.testing.assert_close(average(parts).entropy, whole.entropy)
    torch.testing.assert_close(average(parts).shares["sink"], whole.shares["sink"])


def test_bytes_are_the_rarest_pieces() -> None:
    tokenizer = pieces()
    byte, word = tokenizer.encode("語")[1], tokenizer.encode("dog")[0]
    assert rarity([word, byte, EOS], tokenizer).argsort().tolist() == [2, 0, 1]


# ---------------------------------------------------------------- over a corpus


def test_importance_is_the_loss_of_a_model_without_the_head() -> None:
    translator, other = made(), made()
    corpus = Pairs(translator, TEXT[:4], TEXT[4:])
    found = survey(translator.model, corpus, measures(corpus, decode=False))
    assert len(found.findings) == 24 and found.sentences == 4
    scored = translator.score(TEXT[:4], TEXT[4:])
    tokens = [score for one in scored for score in one.token_scores]
    assert found.whole["loss"] == pytest.approx(-sum(tokens) / len(tokens), abs=1e-4)
    one = found.findings[0]
    layer = attention_layers(other.model)[one.head.attention]
    with torch.no_grad():
        layer.out.weight[:, one.head.head * 8 : (one.head.head + 1) * 8] = 0
    tokens = [score for line in other.score(TEXT[:4], TEXT[4:]) for score in line.token_scores]
    assert one.changes["loss"] == pytest.approx(-sum(tokens) / len(tokens) - found.whole["loss"], abs=1e-4)
    changes = [finding.changes["loss"] for finding in found.findings]
    assert changes == sorted(changes, reverse=True)


def test_scores_are_those_of_greedy_outputs() -> None:
    translator = made()
    corpus = Pairs(translator, TEXT[:4], TEXT[4:])
    said = [one.text for one in translator.translate(TEXT[:4], beam=1)]
    found = measures(corpus, decode=True)(translator.model)
    assert set(found) == {"loss", "bleu", "chrf"}
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(said, [TEXT[4:]]).score, abs=1e-6)


def test_without_targets_the_model_is_its_own_reference() -> None:
    translator = made()
    corpus = Pairs(translator, TEXT[:2], None)
    said = [one.text for one in translator.translate(TEXT[:2])]
    assert sorted(corpus.texts) == sorted(said)
    with pytest.raises(UsageError, match="no sentence is left"):
        Pairs(translator, ["", " " * 5], ["", ""])


def run(*arguments: Any) -> str:
    app = typer.Typer()
    app.command()(heads)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_command_writes_a_table_and_files(tmp_path: Path) -> None:
    folder = random_folder(tmp_path / "model")
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("\n".join(TEXT[:3]) + "\n")
    target.write_text("\n".join(TEXT[3:6]) + "\n")
    files = ("--json", tmp_path / "h.json", "--png", tmp_path / "h.png")
    said = run(folder, "--source", source, "--target", target, "--device", "cpu", *files)
    assert "decoder.1.cross.3" in said and "loss without it" in said.replace("\n", " ")
    told = json.loads((tmp_path / "h.json").read_text())
    assert len(told["heads"]) == 4 * (1 + 2 * 2) and told["sentences"] == 3
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")
    target.write_text("one\n")
    with pytest.raises(UsageError, match="has 3 lines and .* has 1; they must be equal"):
        run(folder, "--source", source, "--target", target)
