"""The scripts in examples/ turn corpora into pairs of files, and the commands in them exist."""

from __future__ import annotations

import lzma
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from headway import config
from headway.cli import app
from headway.data.corpus import Data
from headway.tasks.run import Run
from headway.text.trees import read_tree

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem != "pairs")
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]

PHONEMES = "".join(f"word{'abcdefghij'[i % 10] * (1 + i // 10)} W ER{i % 3} D # a comment\n" for i in range(40))
INFLECTION = "sagen\tsagte\tV;PST;3;SG\nabsetzen\tsetzte ab\tV;PST;3;SG\n"
SCAN = "IN: jump twice OUT: I_JUMP I_JUMP\nIN: walk OUT: I_WALK\n"
TREES = (
    "(ROOT (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ runs) (NP (-NONE- *T*-1))) (. .)))\n"
    "(ROOT (NP (NN rain) (PRN (-LRB- -LRB-) (JJ heavy) (-RRB- -RRB-))))\n"
)
DIALOGUE = "Hello.\nWho is it?\nMe.\n\nAgain?\nYes.\n"


def call(script: str, *words: str | Path) -> str:
    command = [sys.executable, str(ROOT / "examples" / f"{script}.py"), *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "corpus.xz"
    path.write_bytes(lzma.compress(text.encode("utf-8")))
    return path


def test_phonemes_without_stress_and_every_word_on_one_side(tmp_path: Path) -> None:
    call("phonemes", written(tmp_path, PHONEMES + "worda(2) W AA1 D\nworda(3) W ER0 D\n"), tmp_path)
    parts = {part: lines(tmp_path / f"{part}.letters") for part in ("train", "dev", "test")}
    assert [len(parts[part]) for part in ("dev", "test")] == [4, 4]
    assert len(set().union(*parts.values())) == sum(map(len, map(set, parts.values()))) == 40
    said = {line for part in parts for line in lines(tmp_path / f"{part}.phonemes")}
    assert "W ER D" in said and said <= {"W ER D", "W AA D"}


def test_inflection_in_symbols(tmp_path: Path) -> None:
    path = written(tmp_path, INFLECTION)
    call("inflection", path, path, tmp_path)
    assert lines(tmp_path / "train.lemma") == ["V PST 3 SG s a g e n", "V PST 3 SG a b s e t z e n"]
    assert lines(tmp_path / "dev.form") == ["s a g t e", "s e t z t e ▁ a b"]


def test_made_up_compounds_are_inflected_at_their_end(tmp_path: Path) -> None:
    """A form that does not begin as its lemma does, or has a space, is left alone."""
    path = written(tmp_path, "Haus\tHäuser\tN;NOM;PL\nsagen\tgesagt\tV.PTCP;PST\n" + INFLECTION)
    call("inflection", path, path, tmp_path, "--compounds", "2")
    made = [
        (one.split(), two.split())
        for one, two in zip(lines(tmp_path / "train.lemma")[4:], lines(tmp_path / "train.form")[4:], strict=True)
    ]
    assert made and len(lines(tmp_path / "dev.lemma")) == 4
    for lemma, form in made:
        word, inflected = "".join(lemma).lstrip("NVOMPLSTG3"), "".join(form)
        ends = ("haus", "häuser") if lemma[0] == "N" else ("sagen", "sagte")
        assert word.endswith(ends[0]) and inflected.endswith(ends[1])
        assert word.removesuffix(ends[0]) == inflected.removesuffix(ends[1]) != ""


def test_scan(tmp_path: Path) -> None:
    path = written(tmp_path, SCAN)
    call("scan", path, path, tmp_path)
    assert lines(tmp_path / "train.commands") == ["jump twice", "walk"]
    assert lines(tmp_path / "test.actions") == ["I_JUMP I_JUMP", "I_WALK"]


def test_trees_there_and_back(tmp_path: Path) -> None:
    path = written(tmp_path, TREES)
    call("parsing", "prepare", path, path, tmp_path)
    words, trees = lines(tmp_path / "dev.words"), lines(tmp_path / "dev.trees")
    assert words == ["the dog runs .", "rain -LRB- heavy -RRB-"]
    assert trees[0] == "(ROOT (S (NP XX XX )NP (VP XX )VP . )S )ROOT"
    assert [len(tree.leaves) for line in trees if (tree := read_tree(line))] == [4, 4]
    call("parsing", "prepare", path, path, tmp_path, "--tags")
    back = call("parsing", "restore", tmp_path / "dev.words", tmp_path / "dev.trees").splitlines()
    assert back == [line.replace("-SBJ", "").replace(" (NP (-NONE- *T*-1))", "") for line in TREES.splitlines()]


def test_dialogue_ends_at_an_empty_line(tmp_path: Path) -> None:
    path = written(tmp_path, DIALOGUE)
    call("dialogue", path, path, tmp_path, "--context", "2")
    assert lines(tmp_path / "train.context") == ["Hello.", "Hello. | Who is it?", "Again?"]
    assert lines(tmp_path / "dev.reply") == ["Who is it?", "Me.", "Yes."]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_its_commands_exist_and_its_recipe_reads_what_it_writes(path: Path) -> None:
    head = path.read_text(encoding="utf-8").split('"""')[1].replace("\\\n", " ")
    commands = [shlex.split(line) for line in re.findall(r"^    (headway .*)$", head, re.MULTILINE)]
    prepared = next(shlex.split(line) for line in re.findall(r"^    (python .*)$", head, re.MULTILINE))
    for _, name, *words in commands:
        known = {option for param in COMMANDS[name].params for option in param.opts}
        assert {word for word in words if word.startswith("--")} <= known
    recipe = next(words[2] for words in commands if words[1] == "train")
    run = config.load(Run, ROOT / recipe)
    assert isinstance(run.data, Data) and run.data.source.split("/")[0] in prepared
