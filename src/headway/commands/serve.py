"""headway serve: models of any task over HTTP, for LibreTranslate's and DeepL's clients, for programs and people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from headway.commands.options import Only, command
from headway.errors import UsageError
from headway.serve.settings import Limits, Settings
from headway.tasks.model_options import DeviceOptions
from headway.version import pip_install

CHOSEN_LIMITS = Only("queue", "client_requests", "deadline", "trace_deadline", "text")


def print_new_key(path: Path | None) -> Path | None:
    """Make a key and end; nothing is served."""
    if path is not None:
        print(serving("keys").make_key(path))
        raise typer.Exit
    return path


@command
def serve(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Model folders of any task.", show_default="the built-in model")
    ] = None,
    settings: Settings = Settings(),
    limits: Annotated[Limits, CHOSEN_LIMITS] = Limits(),
    make_key: Annotated[  # noqa: ARG001
        Path | None,
        typer.Option(
            help="Add the hash of a new key to this file, print the key, and exit.",
            callback=print_new_key, is_eager=True, rich_help_panel=Settings.panel,
        ),
    ] = None,
    devices: DeviceOptions = DeviceOptions(),
) -> None:  # fmt: skip
    """Serve models of any task over HTTP, with a page that looks inside them. SIGTERM ends it cleanly."""
    from headway.builtin import chosen

    server = serving("server")
    server.run(replace(settings, folders=chosen(folders or ()), limits=limits, **vars(devices)))


def serving(name: str) -> ModuleType:
    """Return a module of the server, or say how to install what it needs."""
    from importlib import import_module

    try:
        return import_module(f"headway.serve.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed; {pip_install('serve')}") from None
