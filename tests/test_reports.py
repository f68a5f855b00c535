"""Evaluation and comparison from the command line: a stand-in translator, made-up sentences, hostile texts."""

from __future__ import annotations

import io
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from headway.commands.compare import compare
from headway.commands.evaluate import evaluate
from headway.engines import Chosen
from headway.engines.pytorch import TorchEngine
from headway.errors import DiskError, UsageError
from headway.metrics import choose, measure, sentence_chrf
from headway.reports.comparison import compare as compare_outputs
from headway.reports.comparison import count_wins
from headway.reports.difference import judged, marked
from headway.reports.documents import comparison_page, evaluation_page
from headway.reports.evaluation import evaluate as evaluate_outputs
from headway.reports.evaluation import loops
from headway.reports.html import data, join, page, tag
from headway.reports.tables import print_comparison, print_evaluation
from headway.reports.testset import Outputs, TestSet, language_of
from small_steppers import tiny_model

NASTY = "<script>alert('x')</script> & \"quoted\" [bold]markup[/bold] \x1b[31mred\x07"
WORDS = ("der", "Hund", "nicht", "rot", "läuft", "12", "alt", "Haus", "und", "sieht", ".", "kein", "Baum")


def sentences(count: int, seed: int, longest: int = 12) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(2, longest))) for _ in range(count)]


def disturb(texts: list[str], seed: int, wrong: float) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(w if rng.random() > wrong else rng.choice(WORDS) for w in text.split()) for text in texts]


@dataclass
class FakeTranslation:
    text: str
    score: float


class FakeTranslator:
    """Writes capitals as small letters, and is a little less sure of each sentence; remembers how it was asked."""

    source_language, target_language = "EN", "de"
    asked: list[dict[str, Any]] = []
    chosen = Chosen(TorchEngine(tiny_model()), "a stand-in")

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def load(
        cls, folder: Path, device: str | None, engine: str, _: str = "auto", beside: Sequence[Path] = ()
    ) -> FakeTranslator:
        assert not beside
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such model")
        cls.asked.append({"device": device, "engine": engine})
        return cls(folder)

    def translate(self, lines: list[str], options: Any = None) -> list[FakeTranslation]:
        self.asked[-1]["beam"] = options.beam
        spoiled = 5 if self.folder.name == "worse" else 1000
        texts = ["" if i % spoiled == spoiled - 1 else line.lower() for i, line in enumerate(lines)]
        return [FakeTranslation(text, -0.1 * i) for i, text in enumerate(texts)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a test set and two models of the stand-in, to work in."""
    module = ModuleType("headway.tasks.translation.translator")
    module.Translator = FakeTranslator  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "headway.tasks.translation.translator", module)
    monkeypatch.setattr(FakeTranslator, "asked", [])
    monkeypatch.chdir(tmp_path)
    references = sentences(40, 1)
    write("test.de", references)
    write("test.en", [text.upper() for text in references])
    write("out.de", disturb(references, 2, 0.3))
    write("other.de", disturb(references, 3, 0.2))
    for name in ("good", "worse"):
        (tmp_path / name).mkdir()
    return tmp_path


def write(name: str, lines: list[str]) -> None:
    Path(name).write_bytes("".join(f"{line}\n" for line in lines).encode())


def run(command: Any, *arguments: str) -> str:
    """Run a command as the command line does; what it raises is raised."""
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, " ".join(arguments).split())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


# ---------------------------------------------------------------- evaluate


def test_evaluate_scores_a_model_and_writes_everything(folder: Path) -> None:
    asked = "good --source test.en --reference test.de --beam 3 --device cpu --metrics bleu,chrf,exact,wer"
    printed = run(evaluate, asked, "--json out.json --html out.html --output said.de")
    report = json.loads(Path("out.json").read_text())
    outputs, references = (Path(name).read_text().splitlines() for name in ("said.de", "test.de"))
    expected = measure(outputs, references, choose("bleu,chrf,exact,wer"), "de", resamples=1000)
    assert report["scores"] == expected.to_dict()
    assert FakeTranslator.asked == [{"device": "cpu", "engine": "auto", "beam": 3}]
    assert outputs == [text.lower() for text in references]
    assert report["language"] == "de"
    assert sum(bucket["sentences"] for bucket in report["lengths"]) == report["count"] == 40
    chrf = [sentence["chrf"] for sentence in report["sentences"]]
    assert chrf == sorted(sentence_chrf(outputs, references))
    assert all(0 < sentence["confidence"] <= 1 for sentence in report["sentences"])
    html = Path("out.html").read_text()
    for score in expected.values():
        assert score.signature in printed
        assert score.signature in html


def test_evaluate_scores_a_file_without_a_model(folder: Path) -> None:
    run(evaluate, "--hypothesis out.de --reference test.de --limit 7 --resamples 0 --json out.json")
    report = json.loads(Path("out.json").read_text())
    assert report["count"] == 7
    assert report["sentences"][0]["source"] is None
    assert report["scores"]["bleu"]["low"] is None
    assert FakeTranslator.asked == []


def test_evaluate_takes_the_tokeniser_from_the_language(folder: Path) -> None:
    write("test.zh", ["我喜欢狗。"])
    write("out.txt", ["我喜欢狗。"])
    assert "tok:zh" in run(evaluate, "--hypothesis out.txt --reference test.zh")
    assert "tok:char" in run(evaluate, "--hypothesis out.txt --reference test.zh --language th")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--source test.en", "--reference is missing"),
        ("--reference test.de", "nothing to evaluate"),
        ("good --hypothesis out.de --reference test.de", "not both"),
        ("good --reference test.de", "--source"),
        ("nowhere --reference test.de --source test.en", "no such model"),
        ("--hypothesis short.de --reference test.de", "short.de has 2 lines but test.de has 40"),
        ("good --source short.de --reference test.de", "short.de has 2 lines but test.de has 40"),
        ("--hypothesis empty.de --reference test.de", "empty.de:1: the file is empty"),
        ("--hypothesis latin.de --reference test.de", "latin.de:1: not UTF-8"),
        ("--hypothesis absent.de --reference test.de", "absent.de"),
        ("--hypothesis out.de --reference test.de --metrics blue", "blue is unknown; choose from"),
        ("--hypothesis out.de --reference test.de --limit 0", "must be at least 1"),
        ("--hypothesis out.de --reference test.de --seed 0", "integer of at least 1"),
        ("--hypothesis out.de --reference test.de --comet x", "--source"),
    ],
)
def test_evaluate_answers_wrong_use_in_one_line(folder: Path, arguments: str, words: str) -> None:
    write("short.de", ["a", "b"])
    Path("empty.de").write_bytes(b"")
    Path("latin.de").write_bytes("für\n".encode("latin-1") * 40)
    with pytest.raises(UsageError, match=words) as error:
        run(evaluate, arguments)
    assert "\n" not in str(error.value)


def test_a_report_that_cannot_be_written_is_the_disks_fault(folder: Path) -> None:
    with pytest.raises(DiskError, match="no/such"):
        run(evaluate, "--hypothesis out.de --reference test.de --html no/such/out.html")


def test_oddities_are_counted() -> None:
    test = TestSet(("a long sentence with words",) * 5, ("sie spricht",) * 5)
    outputs = Outputs("x", ("", "a a a a a", "sie spricht", "a long sentence with words " * 3, "short"))
    found = evaluate_outputs(outputs, test, choose("bleu"), 0, 1).oddities
    assert found == {
        "empty output": 1,
        "repeated words": 1,
        "less than half the reference's length": 3,
        "more than twice the reference's length": 1,
        "source copied, reference differs": 1,
    }
    assert loops("ja , ja , ja , ja ,")
    assert not loops("ja , ja , nein , ja ,")


def test_a_thousand_sentences_take_less_than_ten_seconds() -> None:
    """Of this process: what else the machine does is not counted."""
    references = sentences(1000, 4, longest=25)
    outputs = Outputs("x", tuple(disturb(references, 5, 0.3)))
    start = time.process_time()
    found = evaluate_outputs(outputs, TestSet(tuple(references)), choose("bleu,chrf,ter,exact,wer"), 1000, 1)
    evaluation_page(found)
    assert time.process_time() - start < 10


# ---------------------------------------------------------------- compare


def test_compare_two_models(folder: Path) -> None:
    asked = "worse good --source test.en --reference test.de --resamples 200"
    printed = run(compare, asked, "--json out.json --html out.html")
    report = json.loads(Path("out.json").read_text())
    assert report["systems"] == ["worse", "good"]
    assert report["tally"] == {"wins": 8, "losses": 0, "ties": 32}
    assert report["scores"]["bleu"]["gain"] > 0
    assert report["scores"]["ter"]["gain"] > 0  # lower is better, and the gain says so
    assert report["scores"]["bleu"]["p"] < 0.05
    gains = [sentence["gain"] for sentence in report["sentences"]]
    assert gains == sorted(gains)
    assert [part["name"] for part in report["phenomena"]] == ["numbers", "negation", "rare words"][
        : len(report["phenomena"])
    ]
    assert "B is better in 8, worse in 0, equal in 32" in printed
    assert report["scores"]["bleu"]["first"]["signature"] in printed
    assert "B differs significantly" in Path("out.html").read_text()


def test_compare_files_and_mixtures(folder: Path) -> None:
    run(compare, "--hypothesis-a out.de --hypothesis-b other.de --reference test.de --json out.json")
    assert json.loads(Path("out.json").read_text())["systems"] == ["out.de", "other.de"]
    run(compare, "good", "--hypothesis-a out.de --source test.en --reference test.de --json out.json")
    assert json.loads(Path("out.json").read_text())["systems"] == ["out.de", "good"]
    printed = run(compare, "--hypothesis-a out.de --hypothesis-b out.de --reference test.de")
    assert "not significant" in printed


def test_compare_knows_rare_words_from_the_training_text(folder: Path) -> None:
    write("train.de", ["der Hund sieht rot ."] * 9)
    arguments = "--hypothesis-a out.de --hypothesis-b other.de --reference test.de --train train.de --json out.json"
    run(compare, arguments)
    report = json.loads(Path("out.json").read_text())
    references = Path("test.de").read_text().splitlines()
    rare = [text for text in references if set(text.lower().split()) - {"der", "hund", "sieht", "rot", ".", "12"}]
    assert report["phenomena"][-1]["sentences"] == len(rare)
    assert report["rare_words"] == "occurring at most 5 times in the training text"


@pytest.mark.parametrize(
    "arguments",
    ["good", "good worse good", "good --hypothesis-a out.de --hypothesis-b other.de", "--hypothesis-b out.de", ""],
)
def test_compare_wants_two_systems(folder: Path, arguments: str) -> None:
    with pytest.raises(UsageError, match="two are compared"):
        run(compare, arguments, "--source test.en --reference test.de")


def test_wins_losses_and_ties_add_up() -> None:
    references = tuple(sentences(50, 6))
    first, second = (Outputs(n, tuple(disturb(list(references), s, 0.3))) for n, s in (("a", 7), ("b", 8)))
    found = compare_outputs(first, second, TestSet(references, None, "de"), choose("chrf"), 50, 1)
    assert sum(found.tally) == 50
    for parts in (found.lengths, found.phenomena):
        assert all(sum(part.tally) == part.sentences for part in parts)
    assert tuple(sum(column) for column in zip(*(part.tally for part in found.lengths), strict=True)) == found.tally
    assert count_wins([]) == (0, 0, 0)
    assert all(part.kept and all(0 <= share <= 100 for share in part.kept) for part in found.phenomena)


# ---------------------------------------------------------------- words that differ


@given(st.text(), st.text(), st.text())
def test_marked_pieces_join_up_to_the_text(text: str, other: str, reference: str) -> None:
    for pieces in (marked(text, other), judged(text, other, reference)):
        assert "".join(piece for piece, _ in pieces) == text
    assert all(mark == "" for _, mark in marked(text, text))


def test_words_are_marked_by_who_is_right() -> None:
    assert marked("ein roter Hund", "ein Hund") == [("ein ", ""), ("roter", "other"), (" Hund", "")]
    assert judged("ein rotes altes Haus .", "ein großes Haus .", "das rotes Haus .") == [
        ("ein ", ""),
        ("rotes", "right"),
        (" ", ""),
        ("altes", "wrong"),
        (" Haus .", ""),
    ]
    assert marked("我喜欢狗", "我喜欢猫") == [("我喜欢", ""), ("狗", "other")]


# ---------------------------------------------------------------- hostile texts


class Reader(HTMLParser):
    """What a browser would see: elements, attributes, text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def assert_harmless(html: str, scripts: int) -> None:
    reader = read(html)
    assert [name for name, _ in reader.elements].count("script") == scripts
    for name, attributes in reader.elements:
        assert name not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "href", "srcset", "action"} & set(attributes)
        assert not any(key.startswith("on") for key in attributes)
    assert "http:" not in html
    assert "https:" not in html
    assert "@import" not in html
    policies = [attributes["content"] for _, attributes in reader.elements if "http-equiv" in attributes]
    assert [str(policy).split(";")[0] for policy in policies] == ["default-src 'none'"]


def nasty_outputs() -> tuple[Outputs, Outputs, TestSet]:
    test = TestSet((NASTY, "ein Hund"), (NASTY, "a dog"), "de")
    return Outputs(NASTY, (NASTY, "x"), (0.5, None)), Outputs("b", ("y", NASTY)), test


def test_pages_escape_what_they_show_and_reach_for_nothing() -> None:
    first, second, test = nasty_outputs()
    evaluation = evaluate_outputs(first, test, choose("bleu,chrf"), 50, 1)
    comparison = compare_outputs(first, second, test, choose("bleu,chrf"), 50, 1)
    for html in (evaluation_page(evaluation), comparison_page(comparison)):
        assert_harmless(html, scripts=1)
        assert "<script>alert('x')</script>" in read(html).text


def test_terminals_show_texts_and_do_not_obey_them() -> None:
    first, second, test = nasty_outputs()
    console = Console(file=io.StringIO(), width=200, force_terminal=False)
    print_evaluation(evaluate_outputs(first, test, choose("bleu"), 0, 1), console, worst=2)
    print_comparison(compare_outputs(first, second, test, choose("bleu"), 50, 1), console, worst=4)
    printed = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "[bold]markup[/bold]" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed


@given(st.text(), st.text())
def test_every_text_is_escaped_wherever_it_stands(text: str, attribute: str) -> None:
    safe = text.replace("\r", "").replace("\0", "")  # a parser changes these two, whoever wrote them
    label = attribute.replace("\r", "").replace("\0", "")
    reader = read(page("x", tag("p", join("[", safe, "]"), title=label)))
    assert f"[{safe}]" in reader.text
    assert ("p", {"title": label}) in reader.elements


@given(st.text())
def test_values_for_scripts_come_back_and_end_nothing(text: str) -> None:
    html = data("x", {"text": text})
    inner = html.partition(">")[2].rpartition("</script>")[0]
    assert "<" not in inner
    assert json.loads(inner) == {"text": text}


def test_the_language_of_a_file_is_in_its_name() -> None:
    names = {
        "test.de": "de",
        "test.de.gz": "de",
        "a/test.txt": "",
        "newstest.en-de.zh": "zh",
        "x.tok": "",
        "x.cmn": "cmn",
    }
    assert {name: language_of(Path(name)) for name in names} == names
