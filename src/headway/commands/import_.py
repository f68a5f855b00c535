"""headway import: a model of Hugging Face's layout as a headway folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def import_(
    source: Annotated[
        Path, typer.Argument(help="folder with config.json, model.safetensors and the tokeniser's files")
    ],
    out: Annotated[Path, typer.Option(help="new headway model folder")],
    force: Annotated[bool, typer.Option("--force", help="replace a model that is there")] = False,
) -> None:
    """Take over a Marian translator, or a Llama or GPT-2 language model."""
    from headway.exchange.imports import import_model  # brings in torch

    compared = import_model(source, out, force)
    Console(stderr=True).print(f"wrote {out}: {compared}", markup=False, highlight=False, soft_wrap=True)
