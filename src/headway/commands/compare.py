"""headway compare: is one translator better than another, is that more than chance, and where?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headway.commands.engine_notice import say_engine
from headway.commands.evaluate import METRICS, add_comet, dump_json, with_language, write
from headway.errors import UsageError
from headway.metrics import choose
from headway.metrics.bootstrap import SEED
from headway.reports.comparison import compare as compare_outputs
from headway.reports.documents import comparison_page
from headway.reports.tables import print_comparison
from headway.reports.testset import Outputs, TestSet, read_lines, read_outputs, read_test_set
from headway.tasks.translation.system_outputs import Decoding, translate_with


def compare(
    models: Annotated[list[Path] | None, typer.Argument(help="two model folders: A, then B")] = None,
    reference: Annotated[Path | None, typer.Option(help="reference translations, one a line")] = None,
    source: Annotated[Path | None, typer.Option(help="sentences to translate, one a line")] = None,
    hypothesis_a: Annotated[Path | None, typer.Option(help="A's outputs, instead of a model")] = None,
    hypothesis_b: Annotated[Path | None, typer.Option(help="B's outputs, instead of a model")] = None,
    train: Annotated[Path | None, typer.Option(help="target side of the training text: tells rare words")] = None,
    metrics: Annotated[str, typer.Option(help="measures, separated by commas")] = METRICS,
    to: Annotated[str, typer.Option(help="target language, for multilingual models")] = "",
    beam: Annotated[int, typer.Option(help="hypotheses kept while searching", min=1)] = 5,
    limit: Annotated[int | None, typer.Option(help="use only the first sentences")] = None,
    resamples: Annotated[int, typer.Option(help="test sets drawn for the test", min=40)] = 1000,
    seed: Annotated[int, typer.Option(help="of the resampling")] = SEED,
    language: Annotated[str, typer.Option(help="of the references; chooses BLEU's tokeniser")] = "",
    worst: Annotated[int, typer.Option(help="sentences to print, half losses, half wins", min=0)] = 6,
    comet: Annotated[str, typer.Option(help="path of comet-score in its own environment")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="write everything here as JSON")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="write everything here as a page")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps; default: the best there is")] = None,
    engine: Annotated[str, typer.Option(help="what runs the models")] = "auto",
) -> None:
    """Compare two models, or two files of translations, on the same test set."""
    if reference is None:
        raise UsageError("--reference is missing: give the file of reference translations")
    chosen = choose(metrics)
    sides = pair_up(models or [], hypothesis_a, hypothesis_b)
    test = read_test_set(reference, source, language, limit)
    training = None if train is None else read_lines(train)
    (first, second), test = _both(sides, reference, test, limit, Decoding(beam, device, engine, to))
    measures = add_comet(chosen, comet, test)
    found = compare_outputs(first, second, test, measures, resamples, seed, training)
    if json_file is not None:
        write(json_file, dump_json(found.to_dict()))
    if html_file is not None:
        write(html_file, comparison_page(found))
    print_comparison(found, Console(), worst)


def pair_up(models: list[Path], first: Path | None, second: Path | None) -> list[tuple[Path, bool]]:
    """Two sides, A and B, each a model folder or (True) a file of outputs."""
    folders = iter(models)
    sides: list[tuple[Path, bool]] = []
    for file in (first, second):
        folder = None if file is not None else next(folders, None)
        if file is not None:
            sides.append((file, True))
        elif folder is not None:
            sides.append((folder, False))
    if len(sides) != 2 or next(folders, None) is not None:
        given = len(models) + (first is not None) + (second is not None)
        raise UsageError(
            f"{given} systems given, two are compared: name two model folders, or use --hypothesis-a and --hypothesis-b"
        )
    return sides


def _both(
    sides: list[tuple[Path, bool]], reference: Path, test: TestSet, limit: int | None, how: Decoding
) -> tuple[list[Outputs], TestSet]:
    """The files first: what is wrong with them should be said before a model takes its time."""
    known = {path: read_outputs(path, reference, test, limit) for path, is_file in sides if is_file}
    spoken = ""
    for path, is_file in sides:
        if not is_file and path not in known:
            known[path], spoken = translate_with(path, test, how, say_engine)
    outputs = [known[path] for path, _ in sides]
    return _tell_apart(outputs), with_language(test, spoken, reference)


def _tell_apart(outputs: list[Outputs]) -> list[Outputs]:
    """Short names where they differ."""
    short = [Path(side.name).name or side.name for side in outputs]
    if short[0] == short[1]:
        return outputs
    return [replace(side, name=name) for side, name in zip(outputs, short, strict=True)]
