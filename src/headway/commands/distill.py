"""headway distill: a teacher's translations as a corpus for a smaller student."""

from __future__ import annotations

from pathlib import Path
from shlex import join
from typing import Annotated

import typer

from headway.commands.engine_notice import say_engine
from headway.commands.translate import Beside

Option = typer.Option


def distill(
    teacher: Annotated[Path, typer.Argument(help="Model folder.")],
    source: Annotated[Path, Option(help="Text to translate: the source side of the training corpus.")],
    out: Annotated[Path, Option(help="Folder for the new corpus. The same command again: go on.")],
    target: Annotated[
        Path | None, Option(help="Its real translation: of the beam, the hypothesis nearest to it is taken.")
    ] = None,
    to: Annotated[str, Option(help="Target language, for multilingual models.")] = "",
    beam: Annotated[int, Option(help="Hypotheses that grow together.")] = 5,
    alpha: Annotated[float, Option(help="How much long outputs are favoured.")] = 0.6,
    beside: Beside = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
    engine: Annotated[str, Option(help="auto, native, ctranslate2, torch or cuda.")] = "auto",
    precision: Annotated[str, Option(help="auto, fp32, bf16 or int8.")] = "auto",
) -> None:
    """Write a corpus of a model's own translations; a student learns more easily from it."""
    from headway.tasks.translation.synthesis import Decoding, Making, distil
    from headway.tasks.translation.translator import Manner, Translator

    decoding = Decoding(beam, alpha, n_best=beam if target else 1, to=to)
    Manner(beam=beam, alpha=alpha, n_best=decoding.n_best)  # says what is wrong before anything is loaded
    translator = Translator.load(teacher, device, engine, precision, beside or ())
    say_engine(translator.chosen, engine)
    translator.tag(to)  # a language that it does not know is told before a folder is made
    made = distil(translator, Making("distillation", teacher, source, out, decoding, target, tuple(beside or ())))
    print(f"{out}: {made.facts['lines']:,} pairs; training skips {made.facts['empty']:,} without a target")
    if target is not None:
        print(f"chrF to {target}: {made.facts['chrf_first']} of the first, {made.facts['chrf_chosen']} of the chosen")
    words = ["headway", "train", "--source", str(made.source), "--target", str(made.target), "--out", "student"]
    print(f"\n{join(words)}")
