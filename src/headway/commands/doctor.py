"""headway doctor: look at a corpus before training."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.data.checks.base import Finding
from headway.data.doctor import Diagnosis, examine
from headway.data.formats import Names
from headway.text.unicode import plain

COLOURS = {"fatal": "bold red", "warning": "yellow", "note": "cyan"}


def doctor(
    source: Annotated[Path, typer.Argument(help="text to translate from, a whole .tsv, .jsonl or .tmx file, or a run")],
    target: Annotated[Path | None, typer.Argument(help="its translation, line by line")] = None,
    test: Annotated[tuple[Path, Path] | None, typer.Option(help="test files: are they in the training text?")] = None,
    dev: Annotated[tuple[Path, Path] | None, typer.Option(help="validation files, looked for likewise")] = None,
    fields: Annotated[tuple[str, str], typer.Option(help="columns of a .tsv, fields of a .jsonl")] = ("", ""),
    languages: Annotated[
        tuple[str, str], typer.Option(help="the two languages: which to read from a .tmx; twice the same for replies")
    ] = ("", ""),
    quick: Annotated[bool, typer.Option("--quick", help="only what `headway train` looks at")] = False,
    json: Annotated[bool, typer.Option("--json", help="write the findings as JSON")] = False,
) -> None:
    """Look at a corpus before training: slipped lines, swapped sides, test sentences in it, odd characters.

    The exit code is 0 if training is advisable and 5 if it is not.
    """
    if source.suffix == ".toml":
        look_at_run(source)
        return
    diagnosis = examine(source, target, test, dev, quick, Names(*fields, *languages))
    if json:
        typer.echo(json_format.dumps(diagnosis.to_json(), ensure_ascii=False, indent=2))
    else:
        show(diagnosis, Console(highlight=False))
    diagnosis.refuse_if_fatal()


def look_at_run(path: Path) -> None:
    """What the task of a run says of its files."""
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
    verdict = "not fit for training" if diagnosis.fatal else "fit for training"
    console.print(Text(verdict, style="bold red" if diagnosis.fatal else "bold green"))


def _describe(finding: Finding) -> Text:
    """Text, never markup: what stands in a corpus must not colour the terminal."""
    text = Text(finding.title, style="bold")
    for example in finding.examples:
        text.append(f"\n{example.where}  ", style="not bold dim").append(plain(example.text), style="not bold")
    return text.append(f"\n-> {finding.advice}", style="not bold italic")
