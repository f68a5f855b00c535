"""headway augment: pairs out of target text alone, by back-translation."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from headway.commands.engine_notice import say_engine

Option = typer.Option


def augment(
    model: Annotated[
        Path, typer.Argument(help="Model folder of the opposite direction: it reads the target language.")
    ],
    target: Annotated[Path, Option(help="Text of the target language, one sentence a line.")],
    out: Annotated[Path, Option(help="Folder for the new corpus. The same command again: go on.")],
    to: Annotated[str, Option(help="Language of the sources, for multilingual models.")] = "",
    sample: Annotated[bool, Option("--sample", help="Draw the sources instead of searching the best ones.")] = False,
    beam: Annotated[int, Option(help="Hypotheses that grow together.")] = 5,
    seed: Annotated[int, Option(help="Of drawing.")] = 0,
    tag: Annotated[str, Option(help="Mark of the new pairs while training; none: --tag ''.")] = "bt",
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
    engine: Annotated[str, Option(help="auto, native, ctranslate2, torch or cuda.")] = "auto",
    precision: Annotated[str, Option(help="auto, fp32, bf16 or int8.")] = "auto",
) -> None:
    """Make sources for target text by translating it back, as more pairs to train on."""
    from headway.tasks.translation.synthesis import Decoding, Making, back_translate
    from headway.tasks.translation.translator import Manner, Translator
    from headway.text.tags import check_tags

    check_tags((tag,) if tag else ())
    decoding = Decoding(beam=1, temperature=1.0, seed=seed, to=to) if sample else Decoding(beam, to=to)
    Manner(beam=decoding.beam)  # says what is wrong before anything is loaded
    translator = Translator.load(model, device, engine, precision)
    say_engine(translator.chosen, engine)
    translator.tag(to)  # a language that it does not know is told before a folder is made
    made = back_translate(translator, Making("back-translation", model, target, out, decoding))
    print(f"{out}: {made.facts['lines']:,} pairs; training skips {made.facts['empty']:,} without a source")
    files = {"source": made.source, "target": made.target} | ({"tag": tag} if tag else {})
    corpus = ", ".join(f"{name} = {json.dumps(str(value))}" for name, value in files.items())
    extra = quote(f"data.corpora=[{{ {corpus} }}]")
    print(f"\nTogether with the real pairs:\nheadway train --source SOURCE --target TARGET --set {extra} --out better")
