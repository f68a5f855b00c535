"""headway export: a trained model in another format, checked against itself before it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headway.commands.options import command


@command
def export(
    folder: Annotated[Path, typer.Argument(help="Model folder.")],
    to: Annotated[str, typer.Option(help="Format: hf, ctranslate2, onnx, argos or headway-int8.")],
    out: Annotated[Path, typer.Option(help="New folder for the export.")],
    quantization: Annotated[
        str | None,
        typer.Option(help="Weights of ctranslate2 and argos: int8, int16, float16, ...", show_default="float32"),
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="Sentences to compare on, one per line.", show_default="from the run")
    ] = None,
    languages: Annotated[
        str | None, typer.Option(help="Languages such as en-de, where the model does not know them.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing export.")] = False,
) -> None:
    """Write the model for Hugging Face, CTranslate2, ONNX or Argos Translate, or as a small copy of itself."""
    from headway.exchange.exports import export_model  # brings in torch

    agreement = export_model(folder, to, out, quantization, sample, force, languages)
    Console(stderr=True).print(
        f"wrote {out}: {agreement.same} of {agreement.sentences} sentences translated identically, "
        f"no token worse by more than {agreement.worst:.2g} nats",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
