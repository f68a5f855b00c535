"""headway predict: the predictions of a model of any task for a text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from headway.commands.options import Given, Only, command, join_names
from headway.commands.translate import InputOutput
from headway.errors import UsageError
from headway.options import option
from headway.tasks.decoding_options import DecodingOptions, GenerationOptions
from headway.tasks.model_options import ModelOptions

if TYPE_CHECKING:  # heavy: imported where they are used
    from headway.tasks.base import Prediction, Predictor

COLUMNS = (".conll", ".conllu", ".bio", ".bmes", ".bioes", ".iob", ".iob2")  # suffixes of files with a word per line


@dataclass(frozen=True)
class PredictionForm:
    """The form of the input and of the output."""

    panel: ClassVar[str] = "Files"

    layout: Literal["auto", "lines", "columns"] = option(
        "auto", "Form of the input: lines, or columns with one word per line and an empty line between sentences."
    )
    json_lines: bool = option(False, "Write one JSON object per example, with probabilities.", flags=("--json",))

    def columns(self, path: Path | None) -> bool:
        """Return whether the input has one word per line; with `auto` the name of the file decides."""
        named = path is not None and any(suffix in COLUMNS for suffix in path.suffixes)
        return self.layout == "columns" or (self.layout == "auto" and named)


@command
def predict(
    folder: Annotated[Path, typer.Argument(help="Model folder.")],
    files: Annotated[InputOutput, Only("input", "output")] = InputOutput(),
    form: PredictionForm = PredictionForm(),
    decoding: Annotated[DecodingOptions, Only("to")] = DecodingOptions(),
    prompt: Annotated[
        str | None,
        typer.Option(help="Continue this text and show it as it is written.", rich_help_panel=GenerationOptions.panel),
    ] = None,
    generation: Annotated[dict[str, Any], Given(GenerationOptions)] = {},  # noqa: B006
    models: Annotated[ModelOptions, Only("beside", "device")] = ModelOptions(),
) -> None:
    """Tag, classify, translate or continue text, as the model was trained to do. The order of lines is kept."""
    from headway.tasks.predictors import open_together
    from headway.tasks.translation.file_translation import Files, created, secure
    from headway.tasks.translation.file_translation import write as write_row

    if prompt is not None:
        others = {"input": files.input, "output": files.output, "json": form.json_lines, "to": decoding.to}
        refuse_beside_prompt(others)
    text = Files(files.input, files.output, resume=False)
    model = open_together(folder, models.beside, models.device)
    options = generation | ({"to": decoding.to} if decoding.to else {})
    check_sampling(generation)
    model = model.with_options(**options) if options else model
    if prompt is not None:
        show_continuation(model, prompt)
        return
    found = count_cuts(model.predict(text.lines(), columns=form.columns(files.input)))
    rows = (json.dumps(one.to_dict(), ensure_ascii=False) if form.json_lines else one.text for one in found)
    with ExitStack() as stack:
        out = created(text.output, stack)
        for row in rows:
            write_row(out, f"{row}\n", text.output)
        secure(out, text.output)


def refuse_beside_prompt(given: dict[str, object]) -> None:
    """Refuse options that do not go together with --prompt."""
    if names := join_names(given):
        raise UsageError(
            f"--prompt and {names}: the continuation of --prompt is shown on the terminal; "
            "put prompts into a file, one per line, and give it with --input"
        )


def count_cuts(found: Iterator[Prediction]) -> Iterator[Prediction]:
    """Yield the predictions; at the end print how many texts were longer than the model reads."""
    count = 0
    for one in found:
        count += getattr(one, "cut", False)
        yield one
    if count:
        print(f"note: {count:,} texts are longer than the model reads, and were cut", file=sys.stderr)


def check_sampling(given: dict[str, Any]) -> None:
    """Refuse options of sampling beside a beam."""
    sampling = join_names({name: name in given for name in ("temperature", "top_p", "top_k", "seed")})
    if given.get("beam", 1) > 1 and sampling:
        raise UsageError(f"--beam and {sampling}: beam search does not sample; give one or the other")


def show_continuation(model: Predictor, prompt: str) -> None:
    """Print the prompt and its continuation while it is written."""
    from headway.training.console import fit_for

    print(prompt, end="", flush=True)
    model.write(prompt, lambda part: print(fit_for(sys.stdout.isatty(), part), end="", flush=True))
    print()
