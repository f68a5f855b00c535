"""headway distill: a corpus of a model's own translations, from which a student learns more easily."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import Annotated

import typer

from headway.commands.engine_notice import say_engine
from headway.commands.options import Only, command
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.model_options import ModelOptions

Option = typer.Option


@command
def distill(
    teacher: Annotated[Path, typer.Argument(help="Model folder of the teacher.")],
    source: Annotated[Path, Option(help="Text to translate: the source side of the training corpus.")],
    out: Annotated[Path, Option(help="Folder for the new corpus. The same command again continues.")],
    target: Annotated[
        Path | None, Option(help="Reference translation: the hypothesis of the beam nearest to it is taken.")
    ] = None,
    decoding: Annotated[DecodingOptions, Only("beam", "alpha", "to")] = DecodingOptions(),
    models: ModelOptions = ModelOptions(),
) -> None:
    """Write a corpus of a model's own translations. A small model learns more easily from it."""
    from headway.tasks.translation.synthesis import Making, distil
    from headway.tasks.translation.translator import Translator

    decoding = replace(decoding, n_best=decoding.beam if target else 1)
    translator = Translator.load(teacher, models.device, models.engine, models.precision, models.beside)
    say_engine(translator.chosen, models.engine)
    translator.tag(decoding.to)  # an unknown language is refused before a folder is made
    made = distil(translator, Making("distillation", teacher, source, out, decoding, target, models.beside))
    print(f"{out}: {made.facts['lines']:,} pairs; training skips {made.facts['empty']:,} without a target")
    if target is not None:
        first, best = made.facts["chrf_first"], made.facts["chrf_chosen"]
        print(f"chrF to {target}: {first} of the first hypotheses, {best} of the chosen ones")
    words = ["headway", "train", "--source", str(made.source), "--target", str(made.target), "--out", "student"]
    print(f"\n{join(words)}")
