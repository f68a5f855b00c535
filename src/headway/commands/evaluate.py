"""headway evaluate: how good is a translator, how sure is that, and where does it fail?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headway.builtin import chosen as named
from headway.commands.engine_notice import say_engine
from headway.commands.options import typed
from headway.commands.translate import Beside
from headway.data.formats import one_line
from headway.errors import UsageError
from headway.metrics import Measure, Scores, choose
from headway.metrics.bootstrap import SEED
from headway.metrics.comet import comet as comet_measure
from headway.reports.documents import evaluation_page
from headway.reports.evaluation import evaluate as evaluate_outputs
from headway.reports.tables import print_evaluation
from headway.reports.testset import Outputs, TestSet, language_of, read_outputs, read_test_set
from headway.storage.files import replace_text
from headway.tasks.translation.system_outputs import Decoding, translate_with

METRICS = "bleu,chrf,ter"
BEAM, RESAMPLES = 5, 1000


def evaluate(
    model: Annotated[
        Path | None, typer.Argument(help="model folder; else the model of the package, or --hypothesis")
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Argument(help="test files as they were trained on, for a model that is no translator")
    ] = None,
    reference: Annotated[Path | None, typer.Option(help="reference translations, one a line")] = None,
    source: Annotated[Path | None, typer.Option(help="sentences to translate, one a line")] = None,
    hypothesis: Annotated[Path | None, typer.Option(help="score this file instead of a model")] = None,
    metrics: Annotated[
        str,
        typer.Option(
            help="bleu, chrf, chrf++, ter, exact, accuracy, wer, cer, per, brackets, or bleu-lc ...; "
            f"unset: {METRICS}, or all that a model of another task is measured by",
        ),
    ] = "",
    to: Annotated[str, typer.Option(help="target language, for multilingual models")] = "",
    beam: Annotated[int, typer.Option(help="hypotheses kept while searching", min=1)] = BEAM,
    beside: Beside = None,
    limit: Annotated[int | None, typer.Option(help="use only the first sentences")] = None,
    resamples: Annotated[
        int, typer.Option(help="test sets drawn for the intervals; 0: no intervals", min=0)
    ] = RESAMPLES,
    seed: Annotated[int, typer.Option(help="of the resampling")] = SEED,
    language: Annotated[str, typer.Option(help="of the references; chooses BLEU's tokeniser")] = "",
    worst: Annotated[int, typer.Option(help="sentences to print, worst first", min=0)] = 5,
    comet: Annotated[str, typer.Option(help="path of comet-score in its own environment")] = "",
    output: Annotated[Path | None, typer.Option(help="write the translations here, one a line")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write everything here as JSON")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="write everything here as a page")] = None,
    picture: Annotated[Path | None, typer.Option(help="draw what a classifier takes for what, as PNG")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps; default: the best there is")] = None,
    engine: Annotated[str, typer.Option(help="what runs the model")] = "auto",
) -> None:
    """Score a model on test files, or translations against references."""
    if model is not None and source is not None and reference is None:
        files = once(files or [], source)  # a text to read, not to translate
    if beside and hypothesis:
        raise UsageError("--with is for models, and --hypothesis gives outputs")
    if model is not None and files:
        refuse_all(
            {"reference": reference, "hypothesis": hypothesis, "limit": limit, "output": output, "comet": comet,
             "language": language, "resamples": resamples != RESAMPLES, "beam": beam != BEAM}, files[0],
        )  # fmt: skip
        models, outlets = [model, *(beside or ())], Outlets(json_file, html_file, picture)
        measure_files(models, to, device or "auto", files, metrics, outlets)
        return
    if reference is None:
        raise UsageError("--reference is missing: give the reference translations, or test files after the folder")
    chosen = choose(metrics or METRICS)
    test = read_test_set(reference, source, language, limit)
    how = Decoding(beam, device, engine, to, tuple(beside or ()))
    outputs, test = _outputs(model, hypothesis, reference, test, limit, how)
    measures = add_comet(chosen, comet, test)
    found = evaluate_outputs(outputs, test, measures, resamples, seed)
    if output is not None:  # files first: whoever reads the terminal may have gone
        write(output, "".join(f"{one_line(text)}\n" for text in outputs.texts))
    if json_file is not None:
        write(json_file, dump_json(found.to_dict()))
    if html_file is not None:
        write(html_file, evaluation_page(found))
    print_evaluation(found, Console(), worst)


def once(files: list[Path], source: Path) -> list[Path]:
    if files:
        raise UsageError(f"{files[0]} and --source {source}: name the test files once, after the folder")
    return [source]


def refuse_all(given: Mapping[str, object], file: Path) -> None:
    """Options that only make sense for translations must not be passed over in silence."""
    if said := typed(given):
        raise UsageError(
            f"{said}: for translators, which are measured with --source and --reference; {file} is a test "
            "file as the model was trained on, and is measured as a whole"
        )


@dataclass(frozen=True)
class Outlets:
    """Where a report goes, besides the terminal."""

    json_file: Path | None
    html_file: Path | None
    picture: Path | None


def measure_files(
    models: Sequence[Path], to: str, device: str, files: Sequence[Path], metrics: str, outlets: Outlets
) -> None:
    """Of any task: what a model, or several together, say of files like those they were trained on."""
    from headway.reports.task_reports import confusion_picture, measured_page, print_measured
    from headway.tasks.predictors import open_together

    first, *beside = models
    name, opened = " + ".join(map(str, models)), open_together(first, beside, device)
    found = (opened.with_options(to=to) if to else opened).evaluate(files)
    found = replace(found, scores=only(found.scores, metrics, name))
    if outlets.picture is not None:
        confusion_picture(found, outlets.picture)
        say_written(outlets.picture)
    if outlets.json_file is not None:
        write(outlets.json_file, dump_json(found.to_dict()))
    if outlets.html_file is not None:
        write(outlets.html_file, measured_page(name, found))
    print_measured(name, found, Console())


def only(scores: Scores, metrics: str, model: str) -> Scores:
    """Those that were asked for; all, if nobody asked."""
    wanted = [name.strip() for name in metrics.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in scores]
    if unknown:
        raise UsageError(f"--metrics {', '.join(unknown)}: {model} is measured by {', '.join(scores)}")
    return Scores({name: scores[name] for name in wanted}) if wanted else scores


def _outputs(
    model: Path | None,
    hypothesis: Path | None,
    reference: Path,
    test: TestSet,
    limit: int | None,
    how: Decoding,
) -> tuple[Outputs, TestSet]:
    """What is to be scored, and the test set with its language known."""
    if model is not None and hypothesis is not None:
        raise UsageError(f"{model} and --hypothesis {hypothesis}: give a model or a file of outputs, not both")
    if hypothesis is not None:
        outputs, spoken = read_outputs(hypothesis, reference, test, limit), ""
    elif model is None and test.sources is None:
        raise UsageError("nothing to evaluate: give a model folder, or outputs with --hypothesis")
    else:
        outputs, spoken = translate_with(named([] if model is None else [model])[0], test, how, say_engine)
    return outputs, with_language(test, spoken, reference)


def with_language(test: TestSet, spoken: str, reference: Path) -> TestSet:
    """The language that was asked for, else the model's own, else what the file's name says."""
    return replace(test, language=test.language or spoken or language_of(reference))


def add_comet(measures: Sequence[Measure], command: str, test: TestSet) -> tuple[Measure, ...]:
    if not command:
        return tuple(measures)
    if test.sources is None:
        raise UsageError("--comet reads the sources too: give them with --source")
    return (*measures, comet_measure(command, test.sources))


def dump_json(content: dict[str, object]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def write(path: Path, text: str) -> None:
    """Write a report and say so."""
    replace_text(path, text)
    say_written(path)


def say_written(path: Path) -> None:
    Console(stderr=True).print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
