"""headway import: a model of Hugging Face's layout as a headway folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headway.commands.options import command


@command
def import_(
    source: Annotated[
        Path, typer.Argument(help="Folder with config.json, model.safetensors and the files of the tokeniser.")
    ],
    out: Annotated[Path, typer.Option(help="New model folder.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing model.")] = False,
) -> None:
    """Convert a Marian translator, or a Llama or GPT-2 language model, of Hugging Face's layout."""
    from headway.exchange.imports import import_model  # brings in torch

    compared = import_model(source, out, force)
    Console(stderr=True).print(f"wrote {out}: {compared}", markup=False, highlight=False, soft_wrap=True)
