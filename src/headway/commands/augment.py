"""headway augment: more training pairs from target text alone, by back-translation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from headway.commands.engine_notice import say_engine
from headway.commands.options import Only, command
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.model_options import DeviceOptions

Option = typer.Option


@command
def augment(
    model: Annotated[
        Path, typer.Argument(help="Model folder of the opposite direction: it reads the target language.")
    ],
    target: Annotated[Path, Option(help="Text of the target language, one sentence per line.")],
    out: Annotated[Path, Option(help="Folder for the new corpus. The same command again continues.")],
    sample: Annotated[bool, Option("--sample", help="Sample the sources instead of searching the best ones.")] = False,
    tag: Annotated[str, Option(help="Tag that marks the new pairs in training; '' for none.")] = "bt",
    decoding: Annotated[DecodingOptions, Only("beam", "to", "seed")] = DecodingOptions(),
    devices: DeviceOptions = DeviceOptions(),
) -> None:
    """Make sources for target text by back-translation, as more pairs to train on."""
    from headway.tasks.translation.synthesis import Making, back_translate
    from headway.tasks.translation.translator import Translator
    from headway.text.tags import check_tags

    check_tags((tag,) if tag else ())
    decoding = replace(decoding, beam=1, temperature=1.0) if sample else replace(decoding, seed=0)
    translator = Translator.load(model, devices.device, devices.engine, devices.precision)
    say_engine(translator.chosen, devices.engine)
    translator.tag(decoding.to)  # an unknown language is refused before a folder is made
    made = back_translate(translator, Making("back-translation", model, target, out, decoding))
    print(f"{out}: {made.facts['lines']:,} pairs; training skips {made.facts['empty']:,} without a source")
    files = {"source": made.source, "target": made.target} | ({"tag": tag} if tag else {})
    corpus = ", ".join(f"{name} = {json.dumps(str(value))}" for name, value in files.items())
    extra = quote(f"data.corpora=[{{ {corpus} }}]")
    print(f"\nTogether with the real pairs:\nheadway train --source SOURCE --target TARGET --set {extra} --out better")
