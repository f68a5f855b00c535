"""headway train: from two text files to a model folder, and on again after any interruption."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from headway import config
from headway.errors import UsageError

BUDGETS = ("steps", "epochs", "minutes")

Option = typer.Option


def train(
    file: Annotated[Path | None, typer.Argument(help="A run as TOML; see `headway config`.")] = None,
    out: Annotated[Path | None, Option(help="Folder of the model. The same folder again: go on.")] = None,
    source: Annotated[Path | None, Option(help="Training text to translate from.")] = None,
    target: Annotated[Path | None, Option(help="Its translation, line by line.")] = None,
    dev_source: Annotated[Path | None, Option(help="Validation text; without it some pairs are held out.")] = None,
    dev_target: Annotated[Path | None, Option(help="Its translation.")] = None,
    minutes: Annotated[float | None, Option(help="Training time budget in minutes, over all starts.")] = None,
    steps: Annotated[int | None, Option(help="Train so many updates in all.")] = None,
    epochs: Annotated[float | None, Option(help="Go through the corpus so many times.")] = None,
    config_file: Annotated[Path | None, Option("--config", help="The same as FILE.")] = None,
    set_: Annotated[list[str] | None, Option("--set", help="key=value, for example training.log_every=10.")] = None,
    seed: Annotated[int | None, Option(help="Of everything that is random.")] = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
    force: Annotated[bool, Option("--force", help="Train even if doctor advises against it.")] = False,
    restart: Annotated[bool, Option("--restart", help="Begin at step 0 if no checkpoint can be read.")] = False,
) -> None:
    """Train a model from two text files; or go on with one."""
    if out is None:
        raise UsageError("--out is missing: name a folder for the model, for example --out en-de")
    given = request(file or config_file, set_ or [])
    paths = {"source": source, "target": target, "dev_source": dev_source, "dev_target": dev_target}
    add(given, "data", {name: str(path) for name, path in paths.items() if path is not None})
    add(given, "training", {"minutes": minutes, "steps": steps, "epochs": epochs})
    if seed is not None:
        given["seed"] = seed
    raise typer.Exit(start(given, out, device, force, restart))


def request(path: Path | None, overrides: list[str]) -> dict[str, Any]:
    return config.read_toml(path, overrides) if path is not None else config.override({}, overrides)


def add(given: dict[str, Any], table: str, values: dict[str, Any]) -> None:
    """Options stand above the file; a budget given as an option replaces the file's."""
    values = {name: value for name, value in values.items() if value is not None}
    if values.keys() & set(BUDGETS):
        given[table] = {name: value for name, value in given.get(table, {}).items() if name not in BUDGETS}
    if values:
        given[table] = given.get(table, {}) | values


def start(given: dict[str, Any], out: Path, device_name: str, force: bool, restart: bool = False) -> int:
    """Plan, train, show; the exit code."""
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
