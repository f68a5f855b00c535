"""Rows such as those of docs/results.md, one by one: prepare the data, train the recipe, measure it, print a table.

HEADWAY_DATA=corpora python -m bench.recipes [scan multi30k-en-de ...] [--work runs] [--seed 2] [--minutes 2]
                                             [--steps 2] [--device cpu] [--set training.epochs=20 ...]

HEADWAY_DATA names a folder of corpora, each under the name below, files plain or .xz. Without names all rows are run.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("HEADWAY_DATA", "corpora"))
Settings = Mapping[str, object]


def file(name: str) -> Path:
    """A corpus's file, packed or not."""
    plain = DATA / name
    return plain if plain.exists() else plain.with_name(f"{plain.name}.xz")


def read(name: str) -> str:
    path = file(name)
    content = path.read_bytes()
    return (lzma.decompress(content) if path.suffix == ".xz" else content).decode("utf-8")


@dataclass(frozen=True)
class Row:
    """A recipe, the files it learns from, and the files it is measured on."""

    recipe: str
    train: tuple[str, ...]  # one file, or a source and a target
    dev: tuple[str, ...]  # none: some examples are held out
    tests: tuple[tuple[str, ...], ...]
    scores: str  # which are shown, as `evaluate --metrics` names them
    goal: str = ""
    settings: Settings = field(default_factory=dict)
    prepare: Callable[[Path], None] = lambda folder: None  # noqa: ARG005


# ---------------------------------------------------------------- data that needs a script


def example(script: str, *names: str) -> Callable[[Path], None]:
    """Written by a script of examples/."""

    def prepare(folder: Path) -> None:
        files = [str(file(name)) if "/" in name else name for name in names]
        subprocess.run([sys.executable, str(ROOT / "examples" / script), *files, str(folder)], check=True)

    return prepare


def table(name: str, other: str, every: int = 1) -> Callable[[Path], None]:
    """A table of English, the other language and more, as two files; of the training text every n-th line."""

    def prepare(folder: Path) -> None:
        for part in ("train", "dev"):
            rows = [line.split("\t") for line in read(f"{name}/{part}.tsv").split("\n") if line]
            rows = rows[::every] if part == "train" else rows
            for column, end in enumerate(("en", other)):
                (folder / f"{part}.{end}").write_text("".join(f"{row[column]}\n" for row in rows), encoding="utf-8")

    return prepare


def weibo(folder: Path) -> None:
    """Characters carry a digit, their place in a word: it goes."""
    for part in ("train", "dev"):
        text = read(f"weibo-ner-zh/weiboNER_2nd_conll.{part}")
        (folder / part).write_text(re.sub(r"(?m)^(.)\d\t", r"\1\t", text), encoding="utf-8")


def shakespeare(folder: Path) -> None:
    """The first nine tenths to learn from, as nanoGPT does."""
    text = read("tiny-shakespeare/input.txt")
    cut = int(0.9 * len(text))
    (folder / "train").write_text(text[:cut], encoding="utf-8")
    (folder / "dev").write_text(text[cut:], encoding="utf-8")


# ---------------------------------------------------------------- the rows; names without / lie in the prepared folder


def captions(one: str, other: str, goal: str = "") -> Row:
    def sides(part: str) -> tuple[str, str]:
        return f"multi30k/{part}.{one}", f"multi30k/{part}.{other}"

    return Row(
        f"multi30k-{one}-{other}", sides("train"), sides("val"), (sides("test_2016_flickr"),), "bleu,bleu-lc,chrf", goal
    )


def everyday(name: str, one: str, other: str, goal: str = "", every: int = 1, settings: Settings | None = None) -> Row:
    foreign = other if one == "en" else one
    train, dev = (f"train.{one}", f"train.{other}"), (f"dev.{one}", f"dev.{other}")
    prepare = table(name, foreign, every)
    return Row(f"tatoeba-{one}-{other}", train, dev, (dev,), "bleu,chrf", goal, settings or {}, prepare)


def entities(kind: str, folder: str, parts: tuple[str, ...], goal: str = "", **more: Any) -> Row:
    names = tuple(f"{folder}{part}" for part in parts)
    return Row(f"tagging-{kind}", names[:1], names[1:2], tuple((name,) for name in names[1:]), "f1", goal, **more)


def inflection(language: str, *more: str) -> Row:
    names = [f"sigmorphon2017-inflection/{language}.{part}.tsv" for part in ("train-high", "dev")]
    dev = ("dev.lemma", "dev.form")
    return Row(
        "inflection", ("train.lemma", "train.form"), dev, (dev,), "accuracy,per", "92 accuracy",
        prepare=example("inflection.py", *names, *more),
    )  # fmt: skip


EWT = tuple(f"ud-english-ewt/en_ewt-ud-{part}.conllu" for part in ("train", "dev"))
SST = tuple(f"sst2/{part}.txt" for part in ("train", "dev", "test"))
WIKI = ("wikitext-2/train.articles-shuffled.txt", "wikitext-2/valid.txt")
FEWER: Settings = {  # a tenth of the text and less wants the small model of Multi30k, and more epochs
    "model.width": 256, "model.heads": 4, "model.encoder_layers": 4, "model.decoder_layers": 4,
    "model.feed_forward.width": 512, "training.learning_rate": 2e-3, "training.schedule.warmup": 800,
    "training.batch.tokens": 8192, "training.epochs": 80,
}  # fmt: skip
LEAST: Settings = {**FEWER, "training.batch.tokens": 2048, "training.epochs": 120, "text.size": 2000}
RESUME = tuple(f"{part}.char.bmes" for part in ("train", "dev", "test"))
AGREEING: Settings = {  # a wider TENER that two passes must agree on
    "training.r_drop": 5.0, "model.width": 192, "model.heads": 6, "model.feed_forward.width": 384,
    "training.schedule.kind": "cosine", "training.learning_rate": 2e-3, "training.optimiser.kind": "muon",
    "training.optimiser.weight_decay": 0.3,
}  # fmt: skip
SOUNDS, TREES, TALK = (("letters", "phonemes"), ("words", "trees"), ("context", "reply"))

ROWS: dict[str, Row] = {
    "multi30k-en-de": captions("en", "de", "41 cased, 41.5 lower-cased"),
    "multi30k-de-en": captions("de", "en"),
    "multi30k-en-fr": captions("en", "fr", "62 lower-cased"),
    "tatoeba-en-de": everyday("tatoeba-deu-eng", "en", "de", "48"),
    "tatoeba-en-de-tenth": everyday("tatoeba-deu-eng", "en", "de", every=10, settings=FEWER),
    "tatoeba-en-de-hundredth": everyday("tatoeba-deu-eng", "en", "de", every=100, settings=LEAST),
    "tatoeba-de-en": everyday("tatoeba-deu-eng", "de", "en"),
    "tatoeba-en-fr": everyday("tatoeba-fra-eng", "en", "fr"),
    "tatoeba-fr-en": everyday("tatoeba-fra-eng", "fr", "en"),
    "tatoeba-en-zh": everyday("tatoeba-cmn-eng", "en", "zh"),
    "tatoeba-zh-en": everyday("tatoeba-cmn-eng", "zh", "en"),
    "3am-en-zh": Row(
        "3am-en-zh", ("3am-en-zh/train.en", "3am-en-zh/train.zh"), ("3am-en-zh/val.en", "3am-en-zh/val.zh"),
        (("3am-en-zh/val.en", "3am-en-zh/val.zh"),), "bleu,chrf",
    ),
    "msctd-en-zh": Row(
        "msctd-en-zh", ("msctd-chat/en-zh.train.lc-tok.en", "msctd-chat/en-zh.train.zh"),
        ("msctd-chat/en-zh.dev.lc-tok.en", "msctd-chat/en-zh.dev.zh"),
        (("msctd-chat/en-zh.dev.lc-tok.en", "msctd-chat/en-zh.dev.zh"),), "bleu,chrf",
    ),
    "python-docs-en-zh": Row(
        "python-docs-en-zh", ("train.en", "train.zh"), ("dev.en", "dev.zh"), (("dev.en", "dev.zh"),), "bleu,chrf",
        settings={"data.source_field": '""', "data.target_field": '""'}, prepare=table("python-docs-en-zh", "zh"),
    ),
    "cmudict": Row(
        "cmudict", tuple(f"train.{end}" for end in SOUNDS), tuple(f"dev.{end}" for end in SOUNDS),
        (tuple(f"test.{end}" for end in SOUNDS),), "accuracy,per", "72 accuracy",
        prepare=example("phonemes.py", "cmudict-g2p/cmudict.dict"),
    ),
    "inflection-german": inflection("german"),
    "inflection-german-compounds": inflection("german", "--compounds=1", "--unseen=3"),
    "inflection-finnish": inflection("finnish"),
    "inflection-finnish-compounds": inflection("finnish", "--compounds=1", "--unseen=3"),
    "scan": Row(
        "scan", ("train.commands", "train.actions"), (), (("test.commands", "test.actions"),), "accuracy", "99",
        prepare=example("scan.py", "scan/tasks_train_simple.txt", "scan/tasks_test_simple.txt"),
    ),
    "parsing": Row(
        "parsing", tuple(f"train.{end}" for end in TREES), tuple(f"dev.{end}" for end in TREES),
        (tuple(f"dev.{end}" for end in TREES),), "brackets,accuracy",
        prepare=example("parsing.py", "prepare", "gum-trees/train.trees", "gum-trees/dev.trees"),
    ),
    "dialogue": Row(
        "dialogue", tuple(f"train.{end}" for end in TALK), tuple(f"dev.{end}" for end in TALK),
        (tuple(f"dev.{end}" for end in TALK),), "bleu,chrf",
        prepare=example("dialogue.py", "msctd-chat/en-de.train.en", "msctd-chat/en-de.dev.en"),
    ),
    "resume-tener": entities("tener", "resume-ner-zh/", RESUME),
    "resume-tener-agreeing": entities("tener", "resume-ner-zh/", RESUME, "94 on test", settings=AGREEING),
    "resume-vanilla": entities("vanilla", "resume-ner-zh/", RESUME),
    "weibo-tener": entities("tener", "", ("train", "dev"), prepare=weibo),
    "weibo-vanilla": entities("vanilla", "", ("train", "dev"), prepare=weibo),
    "wnut-tener": entities("tener", "wnut17/", ("train.conll", "dev.conll", "test.conll")),
    "wnut-vanilla": entities("vanilla", "wnut17/", ("train.conll", "dev.conll", "test.conll")),
    "parts-of-speech": Row("tagging-words", EWT[:1], EWT[1:], (EWT[1:],), "accuracy", "93"),
    "sst2": Row("sentiment", SST[:1], SST[1:2], (SST[1:2], SST[2:]), "accuracy", "80"),
    "trec": Row(
        "classification", ("trec-questions/train.txt",), (), (("trec-questions/test.txt",),), "accuracy", "88"
    ),
    "goemotions": Row(
        "classification-many", ("goemotions/train.tsv",), ("goemotions/dev.tsv",), (("goemotions/dev.tsv",),), "f1"
    ),
    "shakespeare": Row(
        "shakespeare", ("train",), ("dev",), (("dev",),), "loss", "1.47 in segments", prepare=shakespeare
    ),
    "wikitext2-xl": Row("wikitext2-xl", WIKI[:1], WIKI[1:], (WIKI[1:],), "perplexity", "75"),
    "wikitext2-vanilla": Row("wikitext2-vanilla", WIKI[:1], WIKI[1:], (WIKI[1:],), "perplexity"),
}  # fmt: skip


# ---------------------------------------------------------------- running


def words_of(row: Row, place: Callable[[str], Path]) -> list[str]:
    """The settings that name a row's files."""
    sides = ("source", "target") if len(row.train) == 2 else ("train",)
    ends = ("dev_source", "dev_target") if len(row.train) == 2 else ("dev",)
    named = dict(zip((*sides, *ends), (*row.train, *row.dev), strict=False))
    given = {f"data.{key}": place(name) for key, name in named.items()} | dict(row.settings)
    return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]


def headway(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "headway", *map(str, words)], check=True, stdout=sys.stderr)


def placed(folder: Path) -> Callable[[str], Path]:
    """Where a row's files are: in a corpus, or in its prepared folder."""
    return lambda name: file(name) if "/" in name else folder / name


def distilled(row: Row, folder: Path) -> tuple[Path, Path]:
    """The two files that `headway distill` wrote: named by their languages, where the model knows them."""
    ends = [Path(name).suffix for name in row.train]
    source, target = ends if (folder / f"train{ends[0]}").exists() else (".source", ".target")
    return folder / f"train{source}", folder / f"train{target}"


def run(name: str, row: Row, work: Path, more: list[str]) -> str:
    """Train and measure; a line of the table."""
    folder, model = work / name / "data", work / name / "model"
    folder.mkdir(parents=True, exist_ok=True)
    row.prepare(folder)
    place = placed(folder)
    begun = time.monotonic()
    headway("train", ROOT / "recipes" / f"{row.recipe}.toml", "--out", model, *words_of(row, place), *more)
    took = time.monotonic() - begun
    print(f"{name}: trained in {took:.0f} s", file=sys.stderr, flush=True)
    return f"| {name} | {took:.0f} s | {measured(row, model, place, work / name)} | {row.goal or '–'} |"


def measured(row: Row, model: Path, place: Callable[[str], Path], reports: Path, *more: object) -> str:
    """What a model reaches on a row's tests."""
    found = list[str]()
    for test in row.tests:
        report = reports / f"{Path(test[0]).name}.json"
        files = [place(each) for each in test]
        asked = ["--source", files[0], "--reference", files[1]] if len(files) == 2 else files
        headway("evaluate", model, *asked, "--metrics", row.scores, "--json", report, *more)
        found.append(f"{Path(test[0]).name}: {shown(json.loads(report.read_text()), row.scores)}")
    return "; ".join(found)


def shown(report: Mapping[str, Any], scores: str) -> str:
    values = report["scores"]
    return ", ".join(f"{name} {number(values[name]):.2f}" for name in scores.split(",") if name in values)


def number(score: Any) -> float:
    return float(score["value"] if isinstance(score, dict) else score)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--work", type=Path, default=Path("runs"), help="where folders are made")
    parser.add_argument("--steps", help="few, to try it out")
    for name in ("minutes", "seed", "device"):
        parser.add_argument(f"--{name}", help="as of headway train")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of headway train")
    given = parser.parse_args()
    unknown = [name for name in given.rows if name not in ROWS]
    if unknown or not DATA.is_dir():
        parser.error(f"no such row: {unknown[0]}" if unknown else f"HEADWAY_DATA is {DATA}: no such folder")
    asked = [(f"--{name}", getattr(given, name)) for name in ("steps", "minutes", "seed", "device")]
    more = [word for pair in (*asked, *(("--set", one) for one in given.set)) if pair[1] for word in pair]
    lines = ["| row | training | measured | goal |", "|---|---|---|---|"]
    print(*lines, sep="\n", flush=True)
    for name in given.rows or ROWS:
        print(run(name, ROWS[name], given.work, more), flush=True)


if __name__ == "__main__":
    main()
