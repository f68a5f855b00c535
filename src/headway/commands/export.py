"""headway export: a trained model in another format, checked against itself before it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def export(
    folder: Annotated[Path, typer.Argument(help="model folder")],
    to: Annotated[str, typer.Option(help="hf, ctranslate2, onnx, argos or headway-int8")],
    out: Annotated[Path, typer.Option(help="new folder for the export")],
    quantization: Annotated[
        str | None, typer.Option(help="ctranslate2, argos: int8, int16, float16, ...; default: float32")
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="sentences to compare on, one a line; default: of the run, and made up")
    ] = None,
    languages: Annotated[str | None, typer.Option(help="such as en-de, where the model does not say")] = None,
    force: Annotated[bool, typer.Option("--force", help="replace an export that is there")] = False,
) -> None:
    """Write the model for Hugging Face, CTranslate2, ONNX or Argos Translate, or as a small copy of itself."""
    from headway.exchange.exports import export_model  # brings in torch

    agreement = export_model(folder, to, out, quantization, sample, force, languages)
    Console(stderr=True).print(
        f"wrote {out}: {agreement.same} of {agreement.sentences} sentences translated alike, "
        f"no piece worse by more than {agreement.worst:.2g} nats",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
