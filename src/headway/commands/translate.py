"""headway translate: one line out for every line in."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.commands.engine_notice import say_engine
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.tasks.translation.file_translation import Columns, Files
    from headway.tasks.translation.translator import Translator

Option = typer.Option
Beside = Annotated[
    list[Path] | None,
    Option("--with", help="Another model that decides along; a translator needs the same pieces. Repeatable."),
]


def translate(
    folder: Annotated[Path | None, typer.Argument(help="Model folder; else the first model of the package.")] = None,
    input_: Annotated[Path | None, Option("--input", help="Text to translate; else standard input.")] = None,
    output: Annotated[Path | None, Option(help="Where to write; else standard output.")] = None,
    resume: Annotated[bool, Option(help="Go on with an output file that was cut short.")] = False,
    beam: Annotated[int, Option(help="Hypotheses that grow together; 1 is greedy.")] = 5,
    n_best: Annotated[int, Option(help="Translations of each line, one a row with its number and score.")] = 1,
    scores: Annotated[bool, Option(help="Add a column with the score.")] = False,
    alignments: Annotated[bool, Option(help="Add a column of word pairs such as 0-0 1-2.")] = False,
    glossary: Annotated[Path | None, Option(help="source<TAB>target terms that must come out.")] = None,
    keep: Annotated[
        list[str] | None, Option(help="Regular expression; what it matches comes out as it is. Repeatable.")
    ] = None,
    confidence: Annotated[float, Option(help="Leave lines empty that are less sure than this (0 to 1).")] = 0.0,
    to: Annotated[str, Option(help="Target language, for multilingual models.")] = "",
    prefix: Annotated[str, Option(help="Begin every output with this.")] = "",
    split: Annotated[bool, Option(help="Translate every sentence of a line by itself.")] = False,
    no_repeat: Annotated[int, Option(help="No run of so many pieces twice; 0: no rule.")] = 0,
    alpha: Annotated[float, Option(help="How much long outputs are favoured.")] = 0.6,
    temperature: Annotated[float, Option(help="Above 0: sample instead of searching.")] = 0.0,
    seed: Annotated[int, Option(help="Of sampling.")] = 0,
    fast: Annotated[bool, Option(help="Greedy: fastest.")] = False,
    best: Annotated[bool, Option(help="Minimum Bayes risk: slow and good.")] = False,
    beside: Beside = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
    engine: Annotated[str, Option(help="auto, native, ctranslate2, torch or cuda.")] = "auto",
    precision: Annotated[str, Option(help="auto, fp32, bf16 or int8.")] = "auto",
    trace: Annotated[Path | None, Option(help="Write how each line came about, as JSON, one a line.")] = None,
) -> None:
    """Translate text, line by line, in order. Empty lines stay empty."""
    from headway.builtin import chosen
    from headway.data.glossary import Glossary
    from headway.tasks.translation.file_translation import Columns, Files
    from headway.tasks.translation.tracing_translator import Tracing
    from headway.tasks.translation.translator import Translator
    from headway.tasks.translation.unfinished import check_resumable
    from headway.text import protected_spans

    if fast and best:
        raise UsageError("--fast and --best: choose one")
    if not 0 <= confidence <= 1:
        raise UsageError(f"--confidence {confidence}: it must be from 0 to 1")
    protected_spans.compiled(keep or ())
    manner: dict[str, Any] = {
        "beam": 1 if fast else beam, "n_best": n_best, "alignments": alignments, "to": to, "prefix": prefix,
        "split": split, "no_repeat": no_repeat, "alpha": alpha, "temperature": temperature, "seed": seed, "best": best,
        "glossary": Glossary.read(glossary) if glossary else Glossary(), "keep": tuple(keep or ()),
    }  # fmt: skip
    folder = chosen([folder] if folder else [])[0]
    files = Files(input_, output, resume)
    if resume:
        check_resumable(input_, output)
    if trace is not None:
        check_trace(trace, files, beside or ())
    translator = Translator.load(folder, device, engine if trace is None else "torch", precision, beside or ())
    say_engine(translator.chosen, engine)
    if trace is not None:
        translator = Tracing(translator, trace, folder.resolve().name)
    columns = Columns(n_best, scores, alignments, confidence)
    told = resumable(translator, (folder, *(beside or ())), files, manner, columns)
    if told:
        print(f"headway: {told}", file=sys.stderr)


def check_trace(path: Path, files: Files, beside: Sequence[Path]) -> None:
    """Refuse a trace that cannot be made, or that would be written over something."""
    if beside:
        raise UsageError("--trace looks into one model; leave --with out")
    if files.resume:
        raise UsageError("--trace cannot go on with a file; leave --resume out")
    if os.path.exists(path) or path == files.output:
        raise UsageError(f"{path} exists; name another --trace")


def resumable(
    translator: Translator, models: Sequence[Path], files: Files, manner: dict[str, Any], columns: Columns
) -> str:
    """Translate everything. From file to file it can be resumed after an interruption, but only as the same work."""
    from headway.tasks.translation.file_translation import translate_lines
    from headway.tasks.translation.unfinished import recorded

    if files.input is None or files.output is None:
        return translate_lines(translator, files, manner, columns)
    with recorded(files.output, work_of(translator, models, files.input, {**asdict(columns), **manner})):
        return translate_lines(translator, files, manner, columns)


def work_of(translator: Translator, models: Sequence[Path], text: Path, options: dict[str, Any]) -> dict[str, Any]:
    """All that an output depends on, to the last digit of its scores."""
    from hashlib import sha256

    from headway.storage.files import digest_of
    from headway.storage.folder import FACTS

    glossary = repr(options["glossary"].terms).encode()
    return {
        "input": digest_of(text).sha256,
        "model": [digest_of(folder / FACTS).sha256 for folder in models],  # this file holds the digests of all others
        **options,
        "glossary": sha256(glossary).hexdigest(),
        "engine": f"{translator.engine.name} {translator.engine.precision} {translator.device.type}",
        "window": translator.window,
    }


def score(
    source: Annotated[Path, Option(help="Source text.")],
    target: Annotated[Path, Option(help="Its translation, line by line.")],
    folder: Annotated[Path | None, typer.Argument(help="Model folder; else the first model of the package.")] = None,
    to: Annotated[str, Option(help="Target language, for multilingual models.")] = "",
    beside: Beside = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Score given translations: log-probability, and per piece, one line each."""
    from headway.reports.testset import read_lines
    from headway.tasks.translation.translator import Translator

    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise UsageError(f"{source} has {len(sources)} lines and {target} has {len(targets)}; they must be as many")
    translator = Translator.load(folder, device, "torch", beside=beside or ())
    for start in range(0, len(sources), 1000):
        for one in translator.score(sources[start : start + 1000], targets[start : start + 1000], to):
            print(f"{one.total:.4f}\t{one.total / max(1, len(one.token_scores)):.4f}")
