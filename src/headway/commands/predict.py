"""headway predict: what a model of any task makes of a text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.commands.options import typed
from headway.commands.translate import Beside
from headway.errors import UsageError

if TYPE_CHECKING:  # heavy: imported where they are used
    from headway.tasks.base import Prediction, Predictor

Option = typer.Option
COLUMNS = (".conll", ".conllu", ".bio", ".bmes", ".bioes", ".iob", ".iob2")  # names of files with a word on each line


def predict(
    folder: Annotated[Path, typer.Argument(help="Model folder.")],
    input_: Annotated[
        Path | None, Option("--input", help="Text, a line for each example; else standard input.")
    ] = None,
    output: Annotated[Path | None, Option(help="Where to write; else standard output.")] = None,
    layout: Annotated[
        Literal["auto", "lines", "columns"],
        Option(help="columns: a word on each line, an empty line between sentences."),
    ] = "auto",
    json_lines: Annotated[bool, Option("--json", help="A line of JSON for each example, with probabilities.")] = False,
    to: Annotated[str, Option(help="Translators: target language, for multilingual models.")] = "",
    prompt: Annotated[str | None, Option(help="Language models: go on with this text, shown as it is written.")] = None,
    longest: Annotated[int | None, Option("--max", help="Language models: most pieces to write.")] = None,
    temperature: Annotated[
        float | None, Option(help="Language models: below 1, likely pieces become likelier; 0: greedy.")
    ] = None,
    top_p: Annotated[float | None, Option(help="Language models: draw from this much probability.")] = None,
    top_k: Annotated[int | None, Option(help="Language models: draw from so many pieces.")] = None,
    beam: Annotated[int | None, Option(help="Language models: search with so many texts instead of drawing.")] = None,
    seed: Annotated[int | None, Option(help="Language models: of drawing.")] = None,
    beside: Beside = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Tag, classify, translate or go on with text, by what the model was trained for; in order."""
    from headway.tasks.predictors import open_together
    from headway.tasks.translation.file_translation import Files, created, secure
    from headway.tasks.translation.file_translation import write as write_row

    if prompt is not None:
        refuse_beside_prompt({"input": input_, "output": output, "json": json_lines, "to": to})
    files = Files(input_, output, resume=False)
    model = open_together(folder, beside or (), device)
    asked = {"longest": longest, "temperature": temperature, "top_p": top_p, "top_k": top_k, "beam": beam, "seed": seed}
    options = {name: value for name, value in {**asked, "to": to or None}.items() if value is not None}
    check_drawing(options)
    model = model.with_options(**options) if options else model
    if prompt is not None:
        tell(model, prompt)
        return
    found = model.predict(files.lines(), columns=layout == "columns" or (layout == "auto" and holds_columns(input_)))
    texts = (json.dumps(one.to_dict(), ensure_ascii=False) if json_lines else one.text for one in telling_cuts(found))
    with ExitStack() as stack:
        out = created(output, stack)
        for text in texts:
            write_row(out, f"{text}\n", output)
        secure(out, output)


def refuse_beside_prompt(given: dict[str, object]) -> None:
    """What follows a prompt is shown as it is written."""
    if said := typed(given):
        raise UsageError(
            f"--prompt and {said}: what follows is shown as it is written; put prompts into a file, "
            "one a line, and give it with --input"
        )


def telling_cuts(found: Iterator[Prediction]) -> Iterator[Prediction]:
    """At the end, how many texts were longer than the model reads."""
    count = 0
    for one in found:
        count += getattr(one, "cut", False)
        yield one
    if count:
        print(f"note: {count:,} texts are longer than the model reads, and were cut", file=sys.stderr)


def check_drawing(options: dict[str, Any]) -> None:
    drawn = typed({name: name in options for name in ("temperature", "top_p", "top_k", "seed")})
    if options.get("beam", 1) > 1 and drawn:
        raise UsageError(f"--beam and {drawn}: a beam searches, the others draw; give one or the other")


def tell(model: Predictor, prompt: str) -> None:
    """The prompt and what follows, as it is written."""
    from headway.training.console import fit_for

    print(prompt, end="", flush=True)
    model.write(prompt, lambda part: print(fit_for(sys.stdout.isatty(), part), end="", flush=True))
    print()


def holds_columns(path: Path | None) -> bool:
    return path is not None and any(suffix in COLUMNS for suffix in path.suffixes)
