"""Metrics: sacreBLEU's own numbers through and through; edit distances against the definition."""

from __future__ import annotations

import json
import os
import random
import re
import stat
import subprocess
import sys
import time
from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from headway.errors import UsageError
from headway.metrics import catalogue, choose, distance, edit_distances, measure, paired_bootstrap, sentence_chrf
from headway.metrics.bootstrap import PICKS, affordable, seeded
from headway.metrics.catalogue import MEASURES, bleu_tokenizer
from headway.metrics.comet import comet
from headway.metrics.slices import by_length, count_words, kept, negation, numbers, rare, where

WORDS = ("the", "a", "dog", "cat", "house", "Tree", "sees", "eats", ".", ",", "red", "old", "never", "12", "3.5", "and")


def corpus(count: int, seed: int, wrong: float = 0.3) -> tuple[list[str], list[str]]:
    """Outputs and references: made-up sentences, some words of each output exchanged."""
    rng = random.Random(seed)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(3, 25))) for _ in range(count)]
    outputs = [
        " ".join(word if rng.random() > wrong else rng.choice(WORDS) for word in text.split()) for text in references
    ]
    return outputs, references


# ---------------------------------------------------------------- sacreBLEU's numbers


@pytest.mark.parametrize(
    ("name", "direct"),
    [
        ("bleu", BLEU()),
        ("bleu-lc", BLEU(lowercase=True)),
        ("chrf", CHRF()),
        ("chrf-lc", CHRF(lowercase=True)),
        ("chrf++", CHRF(word_order=2)),
        ("ter", TER()),
    ],
)
def test_scores_are_those_of_sacrebleu(name: str, direct: Metric) -> None:
    outputs, references = corpus(80, 1)
    expected = direct.corpus_score(outputs, [references], n_bootstrap=60)
    score = measure(outputs, references, choose(name), resamples=60)[name]
    assert score.value == expected.score
    assert score.low == pytest.approx(expected._mean - expected._ci)
    assert score.high == pytest.approx(expected._mean + expected._ci)
    assert score.signature == str(direct.get_signature())


def test_chinese_and_unspaced_scripts_are_cut_into_characters() -> None:
    outputs, references = ["我喜欢狗。", "他不吃鱼。"], ["我喜欢猫。", "他不吃鱼。"]
    score = measure(outputs, references, choose("bleu,wer,ter"), "zh-Hans")
    assert score["bleu"].value == sacrebleu.corpus_bleu(outputs, [references], tokenize="zh").score
    assert "tok:zh" in score["bleu"].signature
    assert score["wer"].value == pytest.approx(100 * 1 / 10)  # one of ten characters
    assert score["ter"].value == pytest.approx(100 * 1 / 10)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("de", "13a"), ("", "13a"), ("zh", "zh"), ("zho_Hans", "zh"), ("cmn", "zh"), ("th", "char"), ("EN-gb", "13a")],
)
def test_tokenizer_follows_the_language(language: str, tokenizer: str) -> None:
    assert bleu_tokenizer(language) == tokenizer


def test_japanese_uses_mecab_only_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "find_spec", lambda _: None)
    assert (bleu_tokenizer("ja"), bleu_tokenizer("ko")) == ("char", "13a")
    monkeypatch.setattr(catalogue, "find_spec", lambda name: name)
    assert (bleu_tokenizer("ja"), bleu_tokenizer("ko")) == ("ja-mecab", "ko-mecab")


def test_intervals_follow_the_seed_and_leave_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    outputs, references = corpus(40, 2)
    one, same, other = (measure(outputs, references, resamples=50, seed=seed)["bleu"] for seed in (3, 3, 4))
    assert one == same
    assert (one.low, one.high) != (other.low, other.high)
    assert "seed:3" in one.signature
    assert os.environ["SACREBLEU_SEED"] == "7"
    with pytest.raises(UsageError, match="integer of at least 1"), seeded(0):
        pass


def test_intervals_of_outputs_that_are_mostly_nothing() -> None:
    """Some resamples score exactly zero, others do not."""
    scores = measure(["", "x", "ab cd"], ["abc", "", "ab cd"], MEASURES, resamples=100)
    assert all(score.low is not None and score.low <= (score.high or 0) for score in scores.values())


def test_without_resamples_there_is_no_interval() -> None:
    score = measure(["a b"], ["a b"])["bleu"]
    assert (score.low, score.high, score.interval) == (None, None, "")
    assert "bs:" not in score.signature


def test_huge_test_sets_get_fewer_resamples() -> None:
    assert affordable(1000, 1000) == 1000
    assert affordable(1000, 100_000) * 100_000 <= PICKS
    assert affordable(1000, 10**9) == 40


def test_scores_become_json() -> None:
    outputs, references = corpus(30, 3)
    scores = measure(outputs, references, MEASURES, resamples=40)
    read = json.loads(scores.to_json())
    assert list(read) == [one.name for one in MEASURES]
    assert all(set(entry) == {"value", "low", "high", "signature", "higher_is_better"} for entry in read.values())
    assert all(entry["low"] <= entry["high"] and entry["signature"] for entry in read.values())
    assert scores.values_by_name()["bleu"] == read["bleu"]["value"]


def test_perfect_outputs_are_perfect() -> None:
    _, references = corpus(20, 4)
    for score in measure(references, references, MEASURES).values():
        assert score.value == pytest.approx(100.0 if score.higher_is_better else 0.0)


def test_unknown_or_no_metric_is_one_line() -> None:
    for names in ("bleu,blue", ","):
        with pytest.raises(UsageError, match="choose from bleu, bleu-lc") as error:
            choose(names)
        assert "\n" not in str(error.value)


def test_outputs_must_pair_up() -> None:
    with pytest.raises(ValueError, match="2 outputs for 1"):
        measure(["a", "b"], ["a"])


def test_sentence_chrf_is_sacrebleus() -> None:
    outputs, references = corpus(10, 5)
    pairs = zip(outputs, references, strict=True)
    assert sentence_chrf(outputs, references) == [sacrebleu.sentence_chrf(a, [b]).score for a, b in pairs]


# ---------------------------------------------------------------- edit distance


def by_definition(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    @cache
    def go(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        same = left[i - 1] == right[j - 1]
        return min(go(i - 1, j - 1) + (not same), go(i - 1, j) + 1, go(i, j - 1) + 1)

    return go(len(left), len(right))


texts = st.lists(st.text("abc", max_size=7), max_size=12)


@given(texts, texts, st.sampled_from([1, 8, 2_000_000]))
def test_edit_distances_are_those_of_the_definition(lefts: list[str], rights: list[str], cells: int) -> None:
    count = min(len(lefts), len(rights))
    pairs = list(zip(lefts[:count], rights[:count], strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distance, "CELLS", cells)  # in one piece and in many
        found = edit_distances(lefts[:count], rights[:count])
    assert found.tolist() == [by_definition(left, right) for left, right in pairs]


def test_error_rates_are_edits_over_length() -> None:
    outputs, references = corpus(40, 6)
    scores = measure(outputs, references, choose("wer,per,cer,exact"))
    pairs = list(zip(outputs, references, strict=True))
    words = sum(by_definition(a.split(), b.split()) for a, b in pairs) / sum(len(b.split()) for _, b in pairs)
    characters = sum(by_definition(a, b) for a, b in pairs) / sum(len(b) for _, b in pairs)
    assert scores["wer"].value == scores["per"].value == pytest.approx(100 * words)
    assert scores["cer"].value == pytest.approx(100 * characters)
    assert scores["exact"].value == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))


def test_error_rates_of_nothing() -> None:
    assert measure([""], [""], choose("wer"))["wer"].value == 0
    assert measure(["a b"], [""], choose("wer"))["wer"].value == 100
    assert measure(["", "x"], ["a b", "x"], choose("wer"))["wer"].value == pytest.approx(100 * 2 / 3)


def test_case_is_ignored_when_asked() -> None:
    scores = measure(["Ein HUND"], ["ein Hund"], choose("exact,exact-lc,wer,wer-lc"))
    assert scores.values_by_name() == {"exact": 0, "exact-lc": 100, "wer": 100, "wer-lc": 0}


def test_ten_thousand_phoneme_strings_take_less_than_two_seconds() -> None:
    rng = random.Random(0)
    phonemes = ["AA", "B", "CH", "D", "EH", "F", "G", "HH", "IY", "K"]
    sides = [[" ".join(rng.choices(phonemes, k=10)) for _ in range(10_000)] for _ in range(2)]
    start = time.process_time()
    measure(sides[0], sides[1], choose("per"))
    assert time.process_time() - start < 2


# ---------------------------------------------------------------- two systems


def test_paired_bootstrap_is_that_of_sacrebleus_command(tmp_path: Path) -> None:
    first, references = corpus(60, 7, wrong=0.3)
    second, _ = corpus(60, 7, wrong=0.24)
    for name, lines in (("ref", references), ("a", first), ("b", second)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    command = "-m sacrebleu ref -i a b -m bleu chrf ter --paired-bs --paired-bs-n 100 -w 4 -f text"
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    printed = [tuple(map(float, found)) for found in re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", done.stdout)]
    p_values = [float(found) for found in re.findall(r"p = ([\d.]+)", done.stdout)]
    pairs = paired_bootstrap(first, second, references, choose("bleu,chrf,ter"), resamples=100)
    for index, pair in enumerate(pairs.values()):  # first row of the table: baseline; second row: the other system
        for score, row in ((pair.first, printed[index]), (pair.second, printed[3 + index])):
            assert score.low is not None
            assert score.high is not None
            found = (score.value, (score.low + score.high) / 2, (score.high - score.low) / 2)
            assert found == pytest.approx(row, abs=1e-4)
        assert pair.p == pytest.approx(p_values[index], abs=1e-4)
    assert pairs["ter"].gain == pairs["ter"].first.value - pairs["ter"].second.value


def test_a_system_is_not_better_than_itself() -> None:
    outputs, references = corpus(30, 8)
    pair = paired_bootstrap(outputs, list(outputs), references, choose("bleu"), resamples=50)["bleu"]
    assert (pair.p, pair.gain) == (1.0, 0.0)


# ---------------------------------------------------------------- slices


def test_length_slices_hold_every_row_once() -> None:
    _, references = corpus(200, 9)
    slices = by_length([*references, "", "x " * 100])
    assert sorted(row for one in slices for row in one.rows) == list(range(202))
    assert slices[0].name == "up to 5"
    assert slices[-1].name == "61 or more"


def test_numbers_negation_and_rare_words_are_found() -> None:
    assert numbers("1,000.5 men, 3 dogs") == numbers("3 Hunde, 1.000,5 Männer") == {"10005", "3"}
    deny = negation("de-AT")
    assert deny is not None
    assert deny("Er hat keinen Hund") == deny("Das ist nicht wahr") != deny("Der Knick ist hier")
    assert negation("eo") is None
    pick = rare(count_words(["a dog .", "a cat ."]), 1)
    assert pick("A Dog and a zebra .") == {"dog", "and", "zebra"}
    assert where("numbers", numbers, ["one", "2", "3 x"]).rows == (1, 2)
    assert kept(numbers, ["2 5", "no"], ["2", "3 and 4"]) == pytest.approx(100 / 3)
    assert kept(numbers, ["x"], ["y"]) is None


# ---------------------------------------------------------------- COMET


def fake_comet(path: Path, body: str) -> str:
    """A program with comet-score's manners: reads three files, writes JSON where it is told."""
    path.write_text(f"#!{sys.executable}\n{FAKE}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


FAKE = """
import json, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
sources, outputs, references = (open(options[key], encoding="utf-8").readlines() for key in ("-s", "-t", "-r"))
rows = [dict(src=s, mt=t, ref=r, COMET=float(t == r)) for s, t, r in zip(sources, outputs, references)]
open(sys.argv[0] + ".log", "a").write("ran\\n")
write = lambda rows: json.dump({options["-t"]: rows}, open(options["--to_json"], "w"))
"""


def test_comet_runs_as_its_own_program_once_for_each_system(tmp_path: Path) -> None:
    program = fake_comet(tmp_path / "comet-score", "write(rows)")
    sources, references = ["eins", "zwei", "drei\r"], ["one", "two", "thr\u2028ee"]
    chosen = (comet(f"{program} --gpus 0", sources),)
    first, second = ["one", "2", "3"], ["one", "two", "3"]
    pair = paired_bootstrap(first, second, references, chosen, resamples=50)["comet"]
    assert (pair.first.value, pair.second.value) == (pytest.approx(100 / 3), pytest.approx(200 / 3))
    assert measure(second, references, chosen)["comet"].value == pytest.approx(200 / 3)
    assert (tmp_path / "comet-score.log").read_text() == "ran\nran\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit('no model found')", "exit code 1: no model found"),
        ("pass", "its scores cannot be read"),
        ("write(rows[:1])", "1 scores for 2"),
    ],
)
def test_comet_that_fails_is_one_line(tmp_path: Path, body: str, words: str) -> None:
    program = fake_comet(tmp_path / "comet-score", body)
    with pytest.raises(UsageError, match=words) as error:
        measure(["a", "b"], ["a", "b"], (comet(program, ["x", "y"]),))
    assert "\n" not in str(error.value)


def test_comet_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be run: No such file"):
        measure(["a"], ["a"], (comet(str(tmp_path / "nowhere"), ["x"]),))
    with pytest.raises(UsageError, match="give the path"):
        comet(" ", ["x"])
