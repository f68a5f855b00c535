"""headway heads: what each attention head does, and what is lost without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headway.errors import UsageError

Option = typer.Option


def heads(
    source: Annotated[Path, Option(help="Sentences, one a line.")],
    folder: Annotated[Path | None, typer.Argument(help="Model folder; else the first model of the package.")] = None,
    target: Annotated[Path | None, Option(help="Their translations; unset: the model's own.")] = None,
    to: Annotated[str, Option(help="Target language, for multilingual models.")] = "",
    sentences: Annotated[int, Option(help="How many to read, from the beginning.", min=1)] = 100,
    bleu: Annotated[bool, Option(help="Translate without each head too, and tell BLEU and chrF: slow.")] = False,
    json_: Annotated[Path | None, Option("--json", help="Write everything here as JSON.")] = None,
    png: Annotated[Path | None, Option(help="Write a picture here.")] = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Survey all attention heads over a corpus: habits, kinds, and importance by silencing one at a time."""
    from headway.model.hooks import attention_layers
    from headway.storage.files import replace_text
    from headway.tasks.translation.ablation_pairs import Pairs
    from headway.tasks.translation.file_translation import shown
    from headway.tasks.translation.head_report import heads_picture, heads_table
    from headway.tasks.translation.head_survey import measures, survey
    from headway.tasks.translation.translator import Translator

    sources, targets = read_pairs(source, target)
    translator = Translator.load(folder, device)
    pairs = Pairs(translator, sources[:sentences], None if targets is None else targets[:sentences], to)
    count = sum(layer.heads for layer in attention_layers(translator.model).values())
    with shown(count, 0, "silencing") as progress:
        found = survey(translator.model, pairs, measures(pairs, bleu), progress)
    if json_ is not None:
        replace_text(json_, json.dumps(found.to_dict(), indent=1) + "\n")
        print(f"wrote {json_}", file=sys.stderr)
    if png is not None:
        heads_picture(found, png)
        print(f"wrote {png}", file=sys.stderr)
    Console(highlight=False).print(heads_table(found))


def read_pairs(source: Path, target: Path | None) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    from headway.reports.testset import read_lines

    sources = read_lines(source)
    targets = None if target is None else read_lines(target)
    if targets is not None and len(targets) != len(sources):
        raise UsageError(f"{source} has {len(sources)} lines and {target} has {len(targets)}; they must be as many")
    return sources, targets
