"""headway translate: one line out for every line in; headway score: how probable given translations are."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from headway.commands.engine_notice import say_engine
from headway.commands.options import Only, command
from headway.errors import UsageError
from headway.options import option
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.model_options import ModelOptions
from headway.tasks.translation.output_columns import OutputColumns

if TYPE_CHECKING:  # these import torch
    from headway.tasks.translation.file_translation import Files
    from headway.tasks.translation.translator import Translator

Option = typer.Option
Folder = Annotated[Path | None, typer.Argument(help="Model folder.", show_default="the built-in model")]


@dataclass(frozen=True)
class InputOutput:
    """Which text is read, and where the result is written."""

    panel: ClassVar[str] = "Files"

    input: Path | None = option(None, "Text file to read.", default_text="standard input")
    output: Path | None = option(None, "File to write.", default_text="standard output")
    resume: bool = option(False, "Continue an output file that an interrupted run left.")


@command
def translate(
    folder: Folder = None,
    files: InputOutput = InputOutput(),
    decoding: DecodingOptions = DecodingOptions(),
    columns: OutputColumns = OutputColumns(),
    fast: Annotated[
        bool, Option("--fast", help="Greedy search, the same as --beam 1.", rich_help_panel=DecodingOptions.panel)
    ] = False,
    models: ModelOptions = ModelOptions(),
    trace: Annotated[
        Path | None,
        Option(help="Write a trace of each line to this file, as JSON lines.", rich_help_panel=OutputColumns.panel),
    ] = None,
) -> None:
    """Translate text line by line, in order. Empty lines stay empty."""
    from headway.builtin import chosen
    from headway.tasks.translation.file_translation import Files
    from headway.tasks.translation.tracing_translator import Tracing
    from headway.tasks.translation.translator import Translator
    from headway.tasks.translation.unfinished import check_resumable

    if fast and decoding.best:
        raise UsageError("--fast and --best: choose one")
    decoding = replace(decoding, beam=1) if fast else decoding
    folder = chosen([folder] if folder else [])[0]
    text = Files(files.input, files.output, files.resume)
    if files.resume:
        check_resumable(files.input, files.output)
    if trace is not None:
        check_trace(trace, files, models)
        models = replace(models, engine="torch")
    translator = Translator.load(folder, models.device, models.engine, models.precision, models.beside)
    say_engine(translator.chosen, models.engine)
    if trace is not None:
        translator = Tracing(translator, trace, folder.resolve().name)
    note = translate_resumably(translator, (folder, *models.beside), text, decoding, columns)
    if note:
        print(f"headway: {note}", file=sys.stderr)


def check_trace(path: Path, files: InputOutput, models: ModelOptions) -> None:
    """Refuse a trace that cannot be made, or that would overwrite a file."""
    if models.beside:
        raise UsageError("--trace shows one model; leave --with out")
    if files.resume:
        raise UsageError("--trace cannot continue a file; leave --resume out")
    if os.path.exists(path) or path == files.output:
        raise UsageError(f"{path} exists; name another --trace")


def translate_resumably(
    translator: Translator, models: tuple[Path, ...], files: Files, decoding: DecodingOptions, columns: OutputColumns
) -> str:
    """Translate everything and return a note for the user.

    From file to file it can be resumed after an interruption, but only with the same input, model and options.
    """
    from headway.tasks.translation.file_translation import translate_lines
    from headway.tasks.translation.unfinished import recorded

    if files.input is None or files.output is None:
        return translate_lines(translator, files, decoding, columns)
    options = {one.name: getattr(decoding, one.name) for one in fields(decoding)} | asdict(columns)
    with recorded(files.output, work_of(translator, models, files.input, options)):
        return translate_lines(translator, files, decoding, columns)


def work_of(translator: Translator, models: tuple[Path, ...], text: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return everything that the output depends on, to the last digit of its scores."""
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


@command
def score(
    source: Annotated[Path, Option(help="Source text.")],
    target: Annotated[Path, Option(help="Its translation, line by line.")],
    folder: Folder = None,
    decoding: Annotated[DecodingOptions, Only("to")] = DecodingOptions(),
    models: Annotated[ModelOptions, Only("beside", "device")] = ModelOptions(),
) -> None:
    """Score given translations: their log-probability, in all and per token, one line each."""
    from headway.reports.testset import read_lines
    from headway.tasks.translation.translator import Translator

    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise UsageError(f"{source} has {len(sources)} lines and {target} has {len(targets)}; they must be equal")
    translator = Translator.load(folder, models.device, "torch", beside=models.beside)
    for start in range(0, len(sources), 1000):
        some = slice(start, start + 1000)
        for one in translator.score(sources[some], targets[some], decoding.to):
            print(f"{one.total:.4f}\t{one.total / max(1, len(one.token_scores)):.4f}")
