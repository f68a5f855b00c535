"""Open trained models of any task from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headway.devices import choose_device
from headway.errors import UsageError
from headway.storage.folder import CONFIG, read_model
from headway.storage.publication import newest
from headway.tasks.base import Loaded, OpenOptions, Predictor
from headway.tasks.run import saved_run

AUTO = OpenOptions()


def open_model(folder: Path, device: str = "auto", options: OpenOptions = AUTO) -> Predictor:
    """Read and check a model folder, and return its predictor. Nothing in the folder is executed."""
    return newest(folder, lambda place: open_place(place, device, options))


def open_place(folder: Path, device: str, options: OpenOptions) -> Predictor:
    """Return the predictor of the files in this very folder."""
    files = read_model(folder)
    where = str(folder / CONFIG)
    run = saved_run(files.config_text, where)
    return run.task.open(Loaded(folder, run, files.tensors, files.facts, choose_device(device)), options)


def open_together(folder: Path, beside: Sequence[Path], device: str = "auto", options: OpenOptions = AUTO) -> Predictor:
    """Return one predictor that averages several models; without `beside`, the model itself."""
    if not beside:
        return open_model(folder, device, options)
    check_together(options)
    plain = OpenOptions("torch", "fp32")
    first = open_model(folder, device, plain)
    others = [(other, open_model(other, device, plain)) for other in beside]
    for path, other in others:
        if type(other) is not type(first):
            raise UsageError(f"{path}: its task is not that of {folder}; --with takes another model of the same task")
    return first.combine(others)


def check_together(options: OpenOptions) -> None:
    """Refuse any engine and precision but those in which several models can be averaged."""
    for what, given, fits in (("engine", options.engine, "torch"), ("precision", options.precision, "fp32")):
        if given not in ("auto", fits):
            raise UsageError(f"{what} is {given!r}, but several models write together by {fits} alone; leave it out")
