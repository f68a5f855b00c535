"""headway train: train a model from two text files, and continue after any interruption."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from headway import config
from headway.commands.doctor import both_fields
from headway.commands.options import command
from headway.errors import UsageError
from headway.options import option

BUDGETS = ("steps", "epochs", "minutes")

Option = typer.Option


@dataclass(frozen=True)
class TrainingFiles:
    """Training and validation text."""

    panel: ClassVar[str] = "Data"

    source: Path | None = option(None, "Training text to translate from; or a .tsv, .jsonl or .tmx with both sides.")
    target: Path | None = option(None, "Its translation, line by line.")
    dev_source: Path | None = option(None, "Validation text.", default_text="some training pairs are held out")
    dev_target: Path | None = option(None, "Its translation.")
    fields: str = option("", "Where source and target stand: columns of a .tsv such as 1,2, or fields of a .jsonl.")

    def table(self) -> dict[str, str]:
        """Return the table [data] of a run with what was given."""
        paths = {name: getattr(self, name) for name in ("source", "target", "dev_source", "dev_target")}
        source_field, target_field = both_fields(self.fields)
        given = {name: str(path) for name, path in paths.items() if path is not None}
        return given | ({"source_field": source_field, "target_field": target_field} if self.fields else {})


@dataclass(frozen=True)
class Budget:
    """How long to train; without any of these the size of the corpus decides."""

    panel: ClassVar[str] = "Budget"

    minutes: float | None = option(None, "Training time budget in minutes, over all starts.")
    steps: int | None = option(None, "Number of updates in all.")
    epochs: float | None = option(None, "Number of passes over the corpus.")


@dataclass(frozen=True)
class Start:
    """How to start."""

    device: str = option("auto", "Device: auto, cpu, cuda or mps.")
    force: bool = option(False, "Train even if doctor advises against it.")
    restart: bool = option(False, "Begin at step 0 if no checkpoint can be read.")


@command
def train(
    file: Annotated[Path | None, typer.Argument(help="A run as TOML; see `headway config`.")] = None,
    out: Annotated[Path | None, Option(help="Model folder. The same folder again continues the run.")] = None,
    files: TrainingFiles = TrainingFiles(),
    budget: Budget = Budget(),
    config_file: Annotated[Path | None, Option("--config", help="The same as FILE.")] = None,
    set_: Annotated[list[str] | None, Option("--set", help="key=value, for example training.log_every=10.")] = None,
    seed: Annotated[int | None, Option(help="Random seed.", show_default="1")] = None,
    begin: Start = Start(),
) -> None:
    """Train a model from two text files, or continue a run."""
    if out is None:
        raise UsageError("--out is missing: name a folder for the model, for example --out en-de")
    given = request(file or config_file, set_ or [])
    add(given, "data", files.table())
    add(given, "training", vars(budget))
    if seed is not None:
        given["seed"] = seed
    raise typer.Exit(start(given, out, begin.device, begin.force, begin.restart))


def request(path: Path | None, overrides: list[str]) -> dict[str, Any]:
    return config.read_toml(path, overrides) if path is not None else config.override({}, overrides)


def add(given: dict[str, Any], table: str, values: dict[str, Any]) -> None:
    """Put options into a table of the run; a budget given as an option replaces that of the file."""
    values = {name: value for name, value in values.items() if value is not None}
    if values.keys() & set(BUDGETS):
        given[table] = {name: value for name, value in given.get(table, {}).items() if name not in BUDGETS}
    if values:
        given[table] = given.get(table, {}) | values


def start(given: dict[str, Any], out: Path, device_name: str, force: bool, restart: bool = False) -> int:
    """Plan the run, train, show the progress, and return the exit code."""
    from headway.devices import choose_device, make_current
    from headway.runs.decide import Timing, decide
    from headway.runs.resume import LOCK, Request, check_out
    from headway.runs.trainer import Trainer
    from headway.storage.lock import Lock
    from headway.training.console import view
    from headway.training.events import Planned
    from headway.training.ranks import join
    from headway.training.signals import StopRequest

    code = 0
    with StopRequest() as stop, join(choose_device(device_name).type) as ranks:
        device = choose_device(device_name, ranks.local)
        make_current(device)
        if ranks.first:
            check_out(out)
        with Lock(out / "state" / LOCK) if ranks.first else nullcontext(), view(ranks.first, out) as show:
            request = Request(given, out)
            candidates = request.candidates(device)
            run = candidates[0].run
            ranks.wait()  # nothing is written before all have read what is there
            notes = request.begin(run, force) if ranks.first else []
            show.preparing(run)
            decided = decide(candidates, out, device, ranks, restart, request.keeps_budget, Timing())
            trainer = Trainer(decided, out, device, ranks, shlex.join(["headway", *sys.argv[1:]]))
            for event in trainer.events(stop, notes):
                if isinstance(event, Planned) and ranks.first:
                    request.remember()
                show(event)
                code = getattr(event, "exit_code", code)
    return code
