"""headway compare: the difference of two systems, its significance, and the sentences where they differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from rich.console import Console

from headway.commands.engine_notice import say_engine
from headway.commands.evaluate import ReportOptions, ScoringOptions, TestOptions, dump_json, with_language, write
from headway.commands.options import Only, command
from headway.errors import UsageError
from headway.options import option
from headway.reports.comparison import compare as compare_outputs
from headway.reports.documents import comparison_page
from headway.reports.tables import print_comparison
from headway.reports.testset import Outputs, TestSet, read_lines, read_outputs, read_test_set
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.model_options import DeviceOptions, ModelOptions
from headway.tasks.translation.system_outputs import translate_with


@dataclass(frozen=True)
class Hypotheses:
    """Files of outputs instead of models."""

    panel: ClassVar[str] = TestOptions.panel

    hypothesis_a: Path | None = option(None, "Outputs of system A, instead of a model.")
    hypothesis_b: Path | None = option(None, "Outputs of system B, instead of a model.")


@command
def compare(
    models: Annotated[list[Path] | None, typer.Argument(help="Two model folders: A, then B.")] = None,
    hypotheses: Hypotheses = Hypotheses(),
    test: TestOptions = TestOptions(),
    scoring: ScoringOptions = ScoringOptions(),
    decoding: Annotated[DecodingOptions, Only("beam", "alpha", "to")] = DecodingOptions(),
    train: Annotated[Path | None, typer.Option(help="Target side of the training text, to find rare words.")] = None,
    devices: DeviceOptions = DeviceOptions(),
    report: Annotated[ReportOptions, Only("worst", "json_file", "html_file")] = ReportOptions(worst=6),
) -> None:
    """Compare two models, or two files of translations, on the same test set."""
    if test.reference is None:
        raise UsageError("--reference is missing: give the file of reference translations")
    sides = pair_up(models or [], hypotheses.hypothesis_a, hypotheses.hypothesis_b)
    sentences = read_test_set(test.reference, test.source, test.language, test.limit)
    measures = scoring.measures(sentences)
    training = None if train is None else read_lines(train)
    (first, second), spoken = both_outputs(sides, test, sentences, decoding, ModelOptions(**vars(devices)))
    sentences = with_language(sentences, spoken, test.reference)
    found = compare_outputs(first, second, sentences, measures, scoring.resamples, scoring.seed, training)
    if report.json_file is not None:
        write(report.json_file, dump_json(found.to_dict()))
    if report.html_file is not None:
        write(report.html_file, comparison_page(found))
    print_comparison(found, Console(), report.worst)


def pair_up(models: list[Path], first: Path | None, second: Path | None) -> list[tuple[Path, bool]]:
    """Return the systems A and B, each a model folder (False) or a file of outputs (True)."""
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


def both_outputs(
    sides: list[tuple[Path, bool]],
    test: TestOptions,
    sentences: TestSet,
    decoding: DecodingOptions,
    models: ModelOptions,
) -> tuple[list[Outputs], str]:
    """Return the outputs of both systems and their language. Files are read first: their errors come at once."""
    assert test.reference is not None
    known = {path: read_outputs(path, test.reference, sentences, test.limit) for path, is_file in sides if is_file}
    spoken = ""
    for path, is_file in sides:
        if not is_file and path not in known:
            known[path], spoken = translate_with(path, sentences, decoding, models, say_engine)
    return shorten_names([known[path] for path, _ in sides]), spoken


def shorten_names(outputs: list[Outputs]) -> list[Outputs]:
    """Name both systems by the last part of their path, if these differ."""
    short = [Path(side.name).name or side.name for side in outputs]
    if short[0] == short[1]:
        return outputs
    return [replace(side, name=name) for side, name in zip(outputs, short, strict=True)]
