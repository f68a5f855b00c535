"""headway heads: the pattern of each attention head, and what is lost without it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from rich.console import Console

from headway.commands.options import Only, command
from headway.commands.translate import Folder
from headway.errors import UsageError
from headway.options import option
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.model_options import DeviceOptions

Option = typer.Option


@dataclass(frozen=True)
class SurveyFiles:
    """Where the survey is written, besides the terminal."""

    panel: ClassVar[str] = "Output"

    json: Path | None = option(None, "Write the survey to this file as JSON.")
    png: Path | None = option(None, "Write a picture to this file.")


@command
def heads(
    source: Annotated[Path, Option(help="Sentences, one per line.")],
    folder: Folder = None,
    target: Annotated[Path | None, Option(help="Their translations.", show_default="those of the model")] = None,
    sentences: Annotated[int, Option(help="Number of sentences to read, from the beginning.", min=1)] = 100,
    bleu: Annotated[bool, Option("--bleu", help="Also translate without each head, for BLEU and chrF: slow.")] = False,
    decoding: Annotated[DecodingOptions, Only("to")] = DecodingOptions(),
    out: SurveyFiles = SurveyFiles(),
    devices: Annotated[DeviceOptions, Only("device")] = DeviceOptions(),
) -> None:
    """Survey all attention heads on a corpus: their patterns, and what is lost when each is silenced."""
    from headway.model.hooks import attention_layers
    from headway.storage.files import replace_text
    from headway.tasks.translation.ablation_pairs import Pairs
    from headway.tasks.translation.file_translation import shown
    from headway.tasks.translation.head_report import heads_picture, heads_table
    from headway.tasks.translation.head_survey import measures, survey
    from headway.tasks.translation.translator import Translator

    sources, targets = read_pairs(source, target)
    translator = Translator.load(folder, devices.device)
    pairs = Pairs(translator, sources[:sentences], None if targets is None else targets[:sentences], decoding.to)
    count = sum(layer.heads for layer in attention_layers(translator.model).values())
    with shown(count, 0, "silencing") as progress:
        found = survey(translator.model, pairs, measures(pairs, bleu), progress)
    if out.json is not None:
        replace_text(out.json, json.dumps(found.to_dict(), indent=1) + "\n")
        print(f"wrote {out.json}", file=sys.stderr)
    if out.png is not None:
        heads_picture(found, out.png)
        print(f"wrote {out.png}", file=sys.stderr)
    Console(highlight=False).print(heads_table(found))


def read_pairs(source: Path, target: Path | None) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    from headway.reports.testset import read_lines

    sources = read_lines(source)
    targets = None if target is None else read_lines(target)
    if targets is not None and len(targets) != len(sources):
        raise UsageError(f"{source} has {len(sources)} lines and {target} has {len(targets)}; they must be equal")
    return sources, targets
