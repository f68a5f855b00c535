"""headway doctor: look at a corpus before training."""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.commands.options import command
from headway.data.checks.base import Finding
from headway.data.doctor import Diagnosis, examine
from headway.data.formats import Names
from headway.errors import UsageError
from headway.text.unicode import plain

FEW = 10_000  # pairs; with fewer a translator learns little more than its examples
Fields = Annotated[
    str, typer.Option(help="Where source and target stand: columns of a .tsv such as 1,2, or fields of a .jsonl.")
]
COLOURS = {"fatal": "bold red", "warning": "yellow", "note": "cyan"}


@command
def doctor(
    source: Annotated[
        Path, typer.Argument(help="Source text; or a .tsv, .jsonl or .tmx file with both sides; or a run as TOML.")
    ],
    target: Annotated[Path | None, typer.Argument(help="Its translation, line by line.")] = None,
    test: Annotated[tuple[Path, Path] | None, typer.Option(help="Test files, to be searched in the corpus.")] = None,
    dev: Annotated[tuple[Path, Path] | None, typer.Option(help="Validation files, to be searched likewise.")] = None,
    fields: Fields = "",
    languages: Annotated[
        tuple[str, str], typer.Option(help="The two languages, which a .tmx file needs; the same twice for replies.")
    ] = ("", ""),
    quick: Annotated[bool, typer.Option("--quick", help="Run only the checks of `headway train`.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check a corpus before training: misaligned lines, swapped sides, leaked test sentences, odd characters.

    The exit code is 0 if the corpus is fit for training and 5 if it is not.
    """
    if source.suffix == ".toml":
        look_at_run(source)
        return
    names = Names(*both_fields(fields), *languages)
    with progress() as tell:
        diagnosis = examine(source, target, test, dev, quick, names, progress=tell)
    if json:
        typer.echo(json_format.dumps(diagnosis.to_json(), ensure_ascii=False, indent=2))
    else:
        show(diagnosis, Console(highlight=False))
    diagnosis.refuse_if_fatal()


def both_fields(text: str) -> tuple[str, str]:
    """Return the two fields of --fields 1,2."""
    source, comma, target = (part.strip() for part in text.partition(","))
    if text and not (source and comma and target):
        raise UsageError(f"--fields {text}: give the field of the source and that of the target, such as --fields 1,2")
    return source, target


@contextmanager
def progress() -> Iterator[Callable[[int], None]]:
    """Show how many lines have been read, if standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("0 lines read") as status:
        yield lambda lines: status.update(f"{lines:,} lines read")


def look_at_run(path: Path) -> None:
    """Print what the task of a run finds in its files."""
    from headway import config
    from headway.tasks.run import Run

    run = config.load(Run, path)
    for note in run.task.look(run.data, force=False, seed=run.seed):
        typer.echo(note)
    typer.echo("fit for training")


def show(diagnosis: Diagnosis, console: Console) -> None:
    """The findings as a table, the worst first, and a verdict."""
    ours, theirs = diagnosis.lines
    console.print(Text(f"{diagnosis.source}: {ours:,} lines; {diagnosis.target}: {theirs:,} lines"))
    if diagnosis.findings:
        table = Table(show_header=True, header_style="bold", box=None, padding=(0, 2, 1, 0))
        table.add_column("")
        table.add_column("lines", justify="right")
        table.add_column("what was found, where, and what to do")
        for finding in diagnosis.findings:
            severity = Text(finding.severity, style=COLOURS[finding.severity])
            table.add_row(severity, f"{finding.count:,}", _describe(finding))
        console.print(table)
    if ours < FEW:
        console.print(f"this corpus is small: {ours:,} pairs; a useful translator needs {FEW:,} or more")
    verdict = "not fit for training" if diagnosis.fatal else "fit for training"
    console.print(Text(verdict, style="bold red" if diagnosis.fatal else "bold green"))


def _describe(finding: Finding) -> Text:
    """Text, never markup: what stands in a corpus must not colour the terminal."""
    text = Text(finding.title, style="bold")
    for example in finding.examples:
        text.append(f"\n{example.where}  ", style="not bold dim").append(plain(example.text), style="not bold")
    return text.append(f"\n-> {finding.advice}", style="not bold italic")
