"""Trees as outputs: search can write nothing else, and they are measured as parsers are."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from headway import config
from headway.cli import app
from headway.data.corpus import Data
from headway.errors import UsageError
from headway.inspection.trace_request import TraceRequest
from headway.metrics import choose, measure
from headway.model.design import EncoderDecoderDesign
from headway.model.feed_forward import Relu
from headway.search import Beam, Greedy, Limits, Sample, score_texts
from headway.search.logits_processors import Written
from headway.search.trees import Trees
from headway.storage.folder import write_model
from headway.storage.weights import weights_of
from headway.tasks.run import Run
from headway.tasks.trace import trace
from headway.tasks.translation.outputs import BracketedTree
from headway.tasks.translation.task import Translation
from headway.tasks.translation.translator import Translator
from headway.text.tokenizer import Words
from headway.text.trees import read_tree
from steppers import Oracle, sources, tiny_model

NAMES = dict(enumerate(("(NP", ")NP", "(VP", ")VP", "XX", ","), start=4))
PAIRS, LEAVES = [(4, 5), (6, 7)], [8, 9]
SEARCHES: list[Any] = [Greedy(), Beam(size=4, n_best=4), Sample(count=4)]


def leaves_of(text: str) -> int | None:
    """How many leaves a tree has, by folding it up from the inside; None if it is no tree."""
    leaves = len(re.findall(r"(?<!\S)[^()\s]+", text))
    folded, before = re.sub(r"(?<!\S)[^()\s]+", "x", text), ""
    while folded != before:
        folded, before = re.sub(r"\((\w+)( x)+ \)\1(?!\S)", "x", folded), folded
    return leaves if folded == "x" and text != "x" else None


def spell(ids: list[int]) -> str:
    return " ".join(NAMES[piece] for piece in ids)


# ---------------------------------------------------------------- search


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam", "sample"])
@settings(max_examples=15, deadline=None)
@given(words=st.lists(st.integers(1, 9), min_size=1, max_size=4), end=st.floats(-3, 3), extra=st.integers(2, 12))
def test_every_output_is_a_tree_over_the_words(search: Any, words: list[int], end: float, extra: int) -> None:
    search = replace(search, limits=Limits(ratio=1.0, extra=extra))
    found = search(Oracle(10, end=end), sources(*words, pieces=10), [Trees(PAIRS, LEAVES, words)])
    for hypotheses, count in zip(found, words, strict=True):
        for one in hypotheses:
            possible = one.total > -torch.inf  # a beam wider than the trees that fit has rows left over
            assert not possible or (leaves_of(spell(one.ids)) == count and one.finished), spell(one.ids)
        assert hypotheses[0].total > -torch.inf


def test_the_best_tree_is_found_and_scored_by_the_model() -> None:
    """Against all texts of that length, each tested for being a tree."""
    model, source, cap = tiny_model(pieces=10, sharp=3.0), sources(2, pieces=10), 8
    texts = [[]]
    trees: list[list[int]] = []
    for _ in range(cap - 1):
        texts = [[*text, piece] for text in texts for piece in range(4, 10) if depth([*text, piece]) >= 0]
        trees += [text for text in texts if leaves_of(spell(text)) == 2]
        texts = [text for text in texts if 0 < depth(text) <= cap - 1 - len(text) and leaf_count(text) <= 2]
    scored = score_texts(model, source.repeat(len(trees), 1), trees)
    best = max(scored, key=lambda one: one.total)
    beam = Beam(size=100, n_best=1, alpha=0.0, limits=Limits(ratio=0.0, extra=cap))
    found = beam(model, source, [Trees(PAIRS, LEAVES, [2])])[0][0]
    assert found.ids == best.ids and found.total == pytest.approx(best.total, abs=1e-4)


def depth(ids: list[int]) -> int:
    """Brackets that are open; -1 if one was closed that was not."""
    opened: list[int] = []
    for piece in ids:
        if piece in (4, 6):
            opened.append(piece)
        elif piece in (5, 7) and (not opened or opened.pop() != piece - 1):
            return -1
    return len(opened)


def leaf_count(ids: list[int]) -> int:
    return sum(piece in LEAVES for piece in ids)


def test_a_tree_that_cannot_hold_all_words_holds_what_it_can() -> None:
    found = Greedy(limits=Limits(ratio=0.0, extra=7))(Oracle(10), sources(9, pieces=10), [Trees(PAIRS, LEAVES, [9])])
    assert leaves_of(spell(found[0][0].ids)) == 4 and found[0][0].finished


def test_what_is_allowed_at_each_step() -> None:
    """The states one by one: nothing yet, just opened, a word in, all words in, the tree closed."""
    shape, cap = Trees(PAIRS, LEAVES, [2]), torch.tensor([20])
    expected = {"": "( (", "(NP": "( ( XX ,", "(NP XX": "( ( XX ,", "(NP (VP XX": ")VP ( ( XX ,", "(NP XX XX": ")NP"}
    numbers = {name: number for number, name in NAMES.items()}
    for text, names in expected.items():
        ids = torch.tensor([[numbers[name] for name in text.split()]], dtype=torch.long)
        left = shape(torch.zeros(1, 10), Written(ids, torch.tensor([0]), cap))[0] > -torch.inf
        assert sorted(
            NAMES[i].replace("(NP", "(").replace("(VP", "(") for i in left.nonzero()[:, 0].tolist()
        ) == sorted(names.split())
    closed = torch.tensor([[4, 8, 8, 5]])
    assert (shape(torch.zeros(1, 10), Written(closed, torch.tensor([0]), cap))[0] > -torch.inf).nonzero().tolist() == [
        [3]
    ]


# ---------------------------------------------------------------- a model


def random_tree(draw: random.Random, words: int, label: str = "S") -> str:
    """A tree over so many words."""
    below, left = [], words
    while left:
        size = draw.randint(1, left)
        split = size > 1 and size < words or draw.random() < 0.2
        below.append(random_tree(draw, size, draw.choice(("NP", "VP", "PP-LOC", "PRT"))) if split else "XX")
        left -= size if split else 1
    return f"({label} {' '.join(below)} ){label}"


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights whose outputs must be trees."""
    folder, draw = tmp_path_factory.mktemp("parser"), random.Random(1)
    sentences = ["the dog sees a cat", "she runs", "a bird sings in the old tree"]
    trees = [random_tree(draw, len(sentence.split())) for sentence in sentences * 20]
    for name, lines in (("words", sentences * 20), ("trees", trees)):
        (folder / f"train.{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    design = EncoderDecoderDesign(
        width=32,
        heads=4,
        encoder_layers=1,
        decoder_layers=1,
        feed_forward=Relu(width=64),
        dropout=0.0,
        tie_embeddings="output",
    )
    text, words, trees_file = Words(joint=False), str(folder / "train.words"), str(folder / "train.trees")
    run = Run(
        task=Translation(metrics="brackets,accuracy", output=BracketedTree(), limits=Limits(ratio=4.0)),
        data=Data(source=words, target=trees_file, dev_source=words, dev_target=trees_file, ratio=0.0),
        text=text,
        model=design,
    )
    sides = {"source": text.learn(sentences), "target": text.learn(trees)}
    torch.manual_seed(3)
    model = design.build(*map(len, sides.values()))

    def save(place: Path) -> None:
        for stem, tokenizer in sides.items():
            tokenizer.save(place, stem)

    facts = {"task": "translation", "step": 0, "scores": {}}
    write_model(folder / "model", weights_of(model), config.dump(run), facts, save, "# random\n")
    return folder


LINES = ["the dog sees a cat", "she sees", "tree", "", "a wholly unknown sentence of nine words or so"]


@pytest.mark.parametrize(
    "manner", [{"beam": 1}, {"n_best": 3}, {"temperature": 1.5}, {"best": True, "beam": 2}], ids=str
)
@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_a_model_says_only_trees(parser: Path, manner: dict[str, Any], engine: str) -> None:
    translator = Translator.load(parser / "model", "cpu", engine)
    for line, one in zip(LINES, translator(LINES, **manner), strict=True):
        for text in (one.text, *(other.text for other in one.alternatives)):
            tree = read_tree(text)
            assert tree is not None and len(tree.leaves) == len(line.split()), text
        assert one.finished and not one.looping


def test_a_look_inside_keeps_the_rule(parser: Path) -> None:
    translator = Translator.load(parser / "model", "cpu", "torch")
    for one in trace(translator, TraceRequest(q=LINES[0], beam_size=3))["alternatives"]:
        assert leaves_of(one["text"]) == len(LINES[0].split())


def test_the_command_says_only_trees_and_measures_them(parser: Path, tmp_path: Path) -> None:
    folder, out, report = str(parser / "model"), tmp_path / "out.trees", tmp_path / "report.json"
    told = CliRunner().invoke(app, ["translate", folder, "--input", str(parser / "train.words"), "--output", str(out)])
    assert told.exit_code == 0, told.output
    sentences, outputs = (path.read_text().splitlines() for path in (parser / "train.words", out))
    assert [len(s.split()) for s in sentences] == [len(t.leaves) if (t := read_tree(x)) else 0 for x in outputs]
    files = ["--source", str(parser / "train.words"), "--reference", str(parser / "train.trees")]
    asked = ["--metrics", "brackets,accuracy", "--resamples", "50", "--json", str(report)]
    told = CliRunner().invoke(app, ["evaluate", folder, *files, *asked])
    assert told.exit_code == 0, told.output
    direct = measure(outputs, (parser / "train.trees").read_text().splitlines(), choose("brackets"))
    assert f"{direct['brackets'].value:.2f}" in told.output and "constituent" in report.read_text()


def test_validation_writes_trees_and_measures_brackets(parser: Path, tmp_path: Path) -> None:
    run = config.load(Run, parser / "model" / "config.toml")
    task = run.prepare(tmp_path)
    torch.manual_seed(0)
    found = task.validate(task.build().eval(), torch.device("cpu"))
    assert found.scores.keys() == {"loss", "brackets", "accuracy"} and task.measured == ("brackets", "accuracy")
    assert found.sample is not None and read_tree(found.sample["output"]) is not None


def test_pieces_without_brackets_are_one_line() -> None:
    with pytest.raises(UsageError, match="target_text"):
        BracketedTree().shapes(["a b"], Words().learn(["no tree here"]))


# ---------------------------------------------------------------- F1


def spans(text: str) -> Counter[tuple[str, frozenset[int]]]:
    """Constituents as sets of leaves, found by walking outwards from each leaf; punctuation left out."""
    opened: list[tuple[str, set[int]]] = []
    found: Counter[tuple[str, frozenset[int]]] = Counter()
    place = 0
    for piece in text.split():
        if piece[0] == "(":
            opened.append((piece[1:].split("-")[0].replace("PRT", "ADVP"), set()))
        elif piece[0] == ")":
            label, below = opened.pop()
            found[label, frozenset(below)] += bool(below) and label != "ROOT"
        else:
            for _, below in opened:
                below |= {place} if piece != "," else set()
            place += 1
    return +found


@given(words=st.lists(st.integers(1, 12), min_size=1, max_size=5), seed=st.integers(0, 10**6))
@example(words=[1], seed=0)
def test_f1_is_that_of_the_sets(words: list[int], seed: int) -> None:
    draw = random.Random(seed)
    pairs = [["(ROOT " + random_tree(draw, count) + " )ROOT" for count in words] for _ in range(2)]
    commas = [random.Random(seed + 1), random.Random(seed + 1)]  # the same leaves are commas on both sides
    said, meant = (
        [re.sub("XX", lambda _, d=d: d.choice(("XX", "XX", ",")), tree) for tree in trees]
        for trees, d in zip(pairs, commas, strict=True)
    )
    found, wanted = ([spans(tree) for tree in trees] for trees in (said, meant))
    both = sum((f & w).total() for f, w in zip(found, wanted, strict=True))
    precision, recall = (both / max(1, sum(one.total() for one in side)) for side in (found, wanted))
    nothing = not any([*found, *wanted])
    f1 = 200 * precision * recall / (precision + recall) if both else 100.0 * nothing
    assert measure(said, meant, choose("brackets"))["brackets"].value == pytest.approx(f1)
    assert measure(meant, meant, choose("brackets"))["brackets"].value == 100


def test_f1_of_outputs_that_are_no_trees() -> None:
    """Evalb leaves such sentences out; here their constituents are simply not found."""
    meant = ["(S (NP XX )NP (VP XX )VP )S"] * 2
    half = measure([meant[0], "(S XX"], meant, choose("brackets"))["brackets"].value
    assert half == pytest.approx(200 * 3 / (3 + 6))
    longer = measure([meant[0], "(S XX XX XX )S"], meant, choose("brackets"))["brackets"].value
    assert longer == pytest.approx(200 * 3 / (4 + 6))
    with pytest.raises(UsageError, match="no tree"):
        measure(["(S XX )S"], ["(S XX )NP"], choose("brackets"))


def test_accuracy_is_the_share_of_lines_that_are_right() -> None:
    said, meant = ["I_RUN I_RUN", "I_WALK", "I_JUMP"], ["I_RUN I_RUN", "I_WALK I_WALK", "I_LOOK"]
    scores = measure(said, meant, choose("accuracy,per"))
    assert scores["accuracy"].value == pytest.approx(100 / 3) and scores["per"].value == pytest.approx(200 / 5)
