"""headway config: the commented settings of a run, to redirect into a file; and their JSON schema for editors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headway import config as configuration
from headway.commands.options import command
from headway.errors import UsageError
from headway.storage.files import replace_text


@command
def config(
    recipe: Annotated[
        str, typer.Argument(help="Recipe: base, big, small, tiny, ...; see `headway describe`.")
    ] = "base",
    schema: Annotated[Path | None, typer.Option(help="Write the JSON schema of a run to this file instead.")] = None,
) -> None:
    """Print every setting of a run with its default and its meaning, as in `headway config small > run.toml`."""
    from headway import recipes
    from headway.tasks.run import Run

    if recipe not in recipes.ALL:
        raise UsageError(f"{recipe} is not a recipe; choose one of {', '.join(recipes.ALL)}")
    if schema is None:
        print(configuration.dump(replace(Run(), model=recipes.ALL[recipe]())), end="")
        return
    replace_text(schema, json.dumps(configuration.schema(Run), indent=2, ensure_ascii=False) + "\n")
