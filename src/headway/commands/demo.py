"""headway demo: in four minutes from nothing to a trained model, its errors and its pictures."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from headway.commands.options import command
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.commands.pronunciation import Places, Said
    from headway.metrics import Scores

MINUTES = 3.5
MOST = 24 * 60
NEXT = """
Ask it yourself:
  echo transformer | headway translate {model}
  headway evaluate {model} --source {letters} --reference {phonemes} --metrics exact,per --html {folder}/report.html
(evaluate is stricter: it accepts one pronunciation of each word, and the figures above accept all of the dictionary)

The same with two files of your own, line by line translations of one another:
  headway train --source train.en --target train.de --out en-de
  echo "A dog runs." | headway translate en-de

All settings of this run are in {run}. Another model, and both learning curves:
  headway train {run} --out {folder}/wider --set model.width=256
  headway plot {model} {folder}/wider --out {folder}/both.html

{minutes:.1f} minutes in all."""
PAGE = """
Type your own, and see why it says that:
  headway serve   # then open http://127.0.0.1:5000"""
SERVER = "  (the server needs more packages: pip install 'headway-mt[serve]')"


@command
def demo(
    minutes: Annotated[
        float | None, typer.Option(help="Training time budget in minutes.", show_default=str(MINUTES))
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the demo. The same folder again continues the demo.")] = Path(
        "headway-demo"
    ),
) -> None:
    """Learn to pronounce English from its spelling: real data, a small Transformer, about four minutes."""
    if minutes is not None and not 0 < minutes <= MOST:
        raise UsageError(f"--minutes {minutes:g}: give more than 0 and at most {MOST}")
    begun, console = (
        time.monotonic(),
        Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120),
    )
    from headway.commands.pronunciation import (
        MADE_UP,
        Places,
        dictionary,
        draw,
        pronounce,
        score,
        split,
        write_corpus,
        write_run,
    )
    from headway.commands.train import add, request, start

    places, words = Places(out), dictionary()
    parts = split(words)
    introduce(console, places, parts)
    write_corpus(places, words, parts)
    write_run(places, minutes or MINUTES)
    given = request(places.run, [])
    add(given, "training", {"minutes": minutes})
    code = start(given, places.model, "auto", force=False)
    if code:
        console.print(f"stopped; to continue: headway demo --out {out}")
        raise typer.Exit(code)

    from headway.tasks.translation.translator import Translator

    translator = Translator.load(places.model, engine="torch")
    show_scores(console, score(translator, parts["test"], words), len(parts["test"]))
    show_words(console, pronounce(translator, [*parts["test"][:6], *MADE_UP], words))
    try:
        show_pictures(console, draw(places, translator))
    except UsageError as error:  # no matplotlib: the rest is worth seeing all the same
        console.print(f"\nNo pictures: {error}", soft_wrap=True)
    show_next(console, places, time.monotonic() - begun)
    show_everyday(console)


def introduce(console: Console, places: Places, parts: dict[str, list[str]]) -> None:
    state = "going on in" if places.run.exists() else "into the folder"
    console.print("From spelling to sounds: real words of the Carnegie Mellon pronouncing dictionary.")
    console.print(
        f"{len(parts['train']):,} words to learn from, {len(parts['dev']):,} to watch, "
        f"{len(parts['test']):,} to be judged by; {state} {places.folder}\n"
    )


def show_scores(console: Console, scores: Scores, count: int) -> None:
    exact, per = scores["exact"], scores["per"]
    console.print(f"\nOf {count:,} words it has never seen:")
    for name, value, score in (
        ("words not right in every sound", 100 - exact.value, exact),
        ("sounds wrong, missing or too many", per.value, per),
    ):
        half = (score.high - score.low) / 2 if score.high is not None and score.low is not None else 0.0
        console.print(f"  {name:<34} {value:5.1f} % ± {half:.1f}")


def show_words(console: Console, results: list[Said]) -> None:
    table = Table.grid(padding=(0, 3, 0, 0))
    for result in results:
        sure = f"{100 * result.sure:.0f} % sure"
        table.add_row(f"  {result.word}", result.said, sure, result.verdict)
    console.print("\nSix of them, and six words that do not exist:", table, sep="\n")


def show_pictures(console: Console, paths: dict[Path, str]) -> None:
    console.print("\nPictures:")
    for path, what in paths.items():
        console.print(f"  {path}  ({what})", soft_wrap=True)


def show_next(console: Console, places: Places, seconds: float) -> None:
    folder, model, run = (quote(str(path)) for path in (places.folder, places.model, places.run))
    letters, phonemes = (quote(str(places.text("test", side))) for side in ("letters", "phonemes"))
    console.print(NEXT.format(**locals(), minutes=seconds / 60), soft_wrap=True)


def show_everyday(console: Console) -> None:
    """The model that comes with the package, if one does, and how to open its page."""
    from headway.commands.pronunciation import everyday

    table = Table.grid(padding=(0, 3, 0, 0))
    for text, translated in everyday():
        table.add_row(f"  {text}", translated)
    if not table.row_count:
        return
    console.print("\nA larger model comes along, for everyday sentences:", table, PAGE, sep="\n")
    if find_spec("fastapi") is None:
        console.print(SERVER)
