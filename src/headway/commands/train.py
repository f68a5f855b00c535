"""headway train: from two text files to a model folder, and on again after any interruption."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headway import config
from headway.errors import HeadwayError, UsageError

FREE = {  # settings that may change between two starts of one run
    "training.steps", "training.epochs", "training.minutes", "training.log_every", "training.validate_every",
    "training.checkpoint_every", "training.patience", "training.keep_last", "training.keep_best",
    "training.validation_sentences", "training.validation_beam", "licence",
}  # fmt: skip
REQUEST = "request.json"

Option = typer.Option


def train(
    file: Annotated[Path | None, typer.Argument(help="A run as TOML; see `headway config`.")] = None,
    out: Annotated[Path | None, Option(help="Folder of the model. The same folder again: go on.")] = None,
    source: Annotated[Path | None, Option(help="Training text to translate from.")] = None,
    target: Annotated[Path | None, Option(help="Its translation, line by line.")] = None,
    dev_source: Annotated[Path | None, Option(help="Validation text; without it some pairs are held out.")] = None,
    dev_target: Annotated[Path | None, Option(help="Its translation.")] = None,
    minutes: Annotated[float | None, Option(help="Train about so long.")] = None,
    steps: Annotated[int | None, Option(help="Train so many updates in all.")] = None,
    epochs: Annotated[float | None, Option(help="Go through the corpus so many times.")] = None,
    config_file: Annotated[Path | None, Option("--config", help="The same as FILE.")] = None,
    set_: Annotated[list[str] | None, Option("--set", help="key=value, for example training.log_every=10.")] = None,
    seed: Annotated[int | None, Option(help="Of everything that is random.")] = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
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
    raise typer.Exit(start(given, out, device))


def request(path: Path | None, overrides: list[str]) -> dict[str, Any]:
    return config.read_toml(path, overrides) if path is not None else config.override({}, overrides)


def add(given: dict[str, Any], table: str, values: dict[str, Any]) -> None:
    """Options stand above the file; a budget given as an option replaces the file's."""
    values = {name: value for name, value in values.items() if value is not None}
    budgets = {"minutes", "steps", "epochs"}
    if budgets & values.keys():
        given[table] = {name: value for name, value in given.get(table, {}).items() if name not in budgets}
    if values:
        given[table] = given.get(table, {}) | values


def start(given: dict[str, Any], out: Path, device_name: str) -> int:
    """Plan, train, show; the exit code."""
    from headway.machine import choose_device
    from headway.training.ranks import join
    from headway.training.signals import StopRequest
    from headway.view import view

    kind = choose_device(device_name).type
    with join(kind) as ranks:
        device = choose_device(device_name, ranks.local)
        if ranks.first:
            check_out(out)
        from headway.trainer import Trainer

        run = settle(given, out, device)
        with StopRequest() as stop, view(ranks.first, out) as show:
            show.preparing(run)
            if ranks.first:  # the others find tokenisers and corpus ready
                run.prepare(out)
                remember(given, out)
            ranks.wait()
            trainer = Trainer(run, out, device, ranks, shlex.join(["headway", *sys.argv[1:]]))
            code = 0
            for event in trainer.events(stop):
                show(event)
                code = getattr(event, "exit_code", code)
    return code


def settle(given: dict[str, Any], out: Path, device: Any) -> Any:
    """The run to train: the folder's own if it has one, else what was given with the rest proposed."""
    from headway.data.corpus import check_files
    from headway.data.formats import count_lines
    from headway.planning import merge, propose
    from headway.run import Run

    stored = out / "config.toml"
    if (out / "state" / REQUEST).exists() and stored.exists():
        compare(given, json.loads((out / "state" / REQUEST).read_text(encoding="utf-8")), out)
        changed = {key: value for key, value in flat(given).items() if key in FREE}
        table = config.read_toml(stored)
        if {"training.epochs", "training.minutes"} & changed.keys():
            table["training"].pop("steps", None)
        return config.from_dict(Run, merge(table, nested(changed)), str(stored))
    asked = config.from_dict(Run, given, "configuration")
    check_files(asked.data)
    pairs = sum(count_lines(Path(corpus.source)) for corpus in asked.data.training())
    return config.from_dict(Run, propose(given, pairs, device), "configuration")


def compare(given: dict[str, Any], before: dict[str, Any], out: Path) -> None:
    """Going on must be going on with the same run: name the first setting that differs."""
    old, new = flat(before), flat(given)
    for key, value in new.items():
        if key not in FREE and json.loads(json.dumps(value)) != old.get(key):
            was = f"was {old[key]!r}" if key in old else "was not given"
            raise UsageError(
                f"{out} holds a run in which {key} {was}, and now it is {value!r}; "
                "leave it out to go on with that run, or give another --out"
            )


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def nested(values: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        place = table
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return table


def remember(given: dict[str, Any], out: Path) -> None:
    from headway.training.files import disk_trouble, replace_text

    state = out / "state"
    with disk_trouble(state, 4096):
        state.mkdir(parents=True, exist_ok=True)
        if not (state / REQUEST).exists():
            replace_text(state / REQUEST, json.dumps(given))


def check_out(out: Path) -> None:
    """A folder of our own, an empty one, or a new one; nothing else is touched."""
    from headway.training.files import disk_trouble

    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: this is a file; name a folder")
    with disk_trouble(out, 4096):
        out.mkdir(parents=True, exist_ok=True)
        ours = {"config.toml", "state", "metrics.jsonl", "headway.json"}
        found = {path.name for path in out.iterdir()}
    if found and not found & ours:
        raise UsageError(f"--out {out}: the folder holds something else ({sorted(found)[0]}); name a new one")
    if "headway.json" in found and "state" not in found:
        raise HeadwayError(f"--out {out}: a published model without training state; name a new folder")
