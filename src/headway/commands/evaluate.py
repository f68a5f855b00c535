"""headway evaluate: scores with confidence intervals, and the worst sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from rich.console import Console

from headway.builtin import chosen as named
from headway.commands.engine_notice import say_engine
from headway.commands.options import Only, command, join_names
from headway.data.formats import one_line
from headway.errors import UsageError
from headway.metrics import Measure, Scores, choose
from headway.metrics.bootstrap import SEED
from headway.metrics.comet import comet as comet_measure
from headway.options import check_ranges, option
from headway.reports.documents import evaluation_page
from headway.reports.evaluation import Evaluation
from headway.reports.evaluation import evaluate as evaluate_outputs
from headway.reports.tables import print_evaluation
from headway.reports.testset import Outputs, TestSet, language_of, read_outputs, read_test_set
from headway.storage.files import replace_text
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.model_options import ModelOptions
from headway.tasks.translation.system_outputs import translate_with

METRICS = "bleu,chrf,ter"


@dataclass(frozen=True)
class TestOptions:
    """What is evaluated, and against which references."""

    __test__: ClassVar[bool] = False  # pytest takes the name for a test
    panel: ClassVar[str] = "Test set"

    reference: Path | None = option(None, "Reference translations, one per line.")
    source: Path | None = option(None, "Sentences to translate, one per line.")
    limit: int | None = option(None, "Use only the first N sentences.", metavar="N")
    language: str = option(
        "", "Language of the references, which chooses the tokeniser of BLEU.", default_text="guessed"
    )


@dataclass(frozen=True)
class ScoringOptions:
    """How outputs are scored."""

    panel: ClassVar[str] = "Metrics"

    metrics: str = option(
        "",
        "Metrics, separated by commas: bleu, chrf, chrf++, ter, exact, accuracy, wer, cer, per, brackets; with -lc "
        "lower-cased.",
        default_text=f"{METRICS}; for other tasks all of the task",
    )
    resamples: int = option(1000, "Bootstrap samples for the confidence intervals; 0: no intervals.", least=0)
    seed: int = option(SEED, "Random seed of the bootstrap.")
    comet: str = option("", "Path of the program comet-score, installed in an environment of its own.")

    def __post_init__(self) -> None:
        check_ranges(self)

    def measures(self, test: TestSet) -> tuple[Measure, ...]:
        """Return the metrics of a translation."""
        chosen = tuple(choose(self.metrics or METRICS))
        if not self.comet:
            return chosen
        if test.sources is None:
            raise UsageError("--comet reads the sources too: give them with --source")
        return (*chosen, comet_measure(self.comet, test.sources))


@dataclass(frozen=True)
class ReportOptions:
    """Where a report is written, besides the terminal."""

    panel: ClassVar[str] = "Report"

    worst: int = option(5, "Number of sentences to print, the worst first.", least=0)
    output: Path | None = option(None, "Write the translations to this file, one per line.")
    json_file: Path | None = option(None, "Write the report to this file as JSON.", flags=("--json",))
    html_file: Path | None = option(None, "Write the report to this file as a page.", flags=("--html",))
    picture: Path | None = option(None, "Write the confusion matrix of a classifier to this file as PNG.")


@command
def evaluate(
    model: Annotated[
        Path | None, typer.Argument(help="Model folder.", show_default="the built-in model, or --hypothesis")
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Test files in the form of the training files, for other tasks.")
    ] = None,
    hypothesis: Annotated[
        Path | None,
        typer.Option(help="Score this file of outputs instead of a model.", rich_help_panel=TestOptions.panel),
    ] = None,
    test: TestOptions = TestOptions(),
    scoring: ScoringOptions = ScoringOptions(),
    decoding: Annotated[DecodingOptions, Only("beam", "alpha", "to")] = DecodingOptions(),
    models: ModelOptions = ModelOptions(),
    report: ReportOptions = ReportOptions(),
) -> None:
    """Score a model on test files, or a file of translations against references."""
    if model is not None and test.source is not None and test.reference is None:
        files = once(files or [], test.source)  # a text to read, not to translate
    if models.beside and hypothesis:
        raise UsageError("--with needs models, and --hypothesis gives outputs; leave one of them out")
    if model is not None and files:
        refuse_for_files(files[0], test, scoring, decoding, {"hypothesis": hypothesis, "output": report.output})
        evaluate_files((model, *models.beside), files, scoring.metrics, decoding.to, models.device, report)
        return
    if test.reference is None:
        raise UsageError("--reference is missing: give the reference translations, or test files after the folder")
    sentences = read_test_set(test.reference, test.source, test.language, test.limit)
    measures = scoring.measures(sentences)
    outputs, spoken = find_outputs(model, hypothesis, test, sentences, decoding, models)
    sentences = with_language(sentences, spoken, test.reference)
    write_report(evaluate_outputs(outputs, sentences, measures, scoring.resamples, scoring.seed), outputs, report)


def write_report(found: Evaluation, outputs: Outputs, report: ReportOptions) -> None:
    """Write the files first and then to the terminal, for its reader may have gone."""
    if report.output is not None:
        write(report.output, "".join(f"{one_line(text)}\n" for text in outputs.texts))
    if report.json_file is not None:
        write(report.json_file, dump_json(found.to_dict()))
    if report.html_file is not None:
        write(report.html_file, evaluation_page(found))
    print_evaluation(found, Console(), report.worst)


def once(files: list[Path], source: Path) -> list[Path]:
    if files:
        raise UsageError(f"{files[0]} and --source {source}: name the test files once, after the folder")
    return [source]


def refuse_for_files(
    file: Path, test: TestOptions, scoring: ScoringOptions, decoding: DecodingOptions, others: Mapping[str, object]
) -> None:
    """Refuse options that are for translations alone; none of them is ignored silently."""
    usual, beam = ScoringOptions(), DecodingOptions().beam
    given = {"reference": test.reference, "limit": test.limit, "language": test.language, "comet": scoring.comet}
    given |= {"resamples": scoring.resamples != usual.resamples, "beam": decoding.beam != beam, **others}
    if names := join_names(given):
        raise UsageError(
            f"{names}: for translators, which are measured with --source and --reference; {file} is a test "
            "file as the model was trained on, and is measured as a whole"
        )


def evaluate_files(
    models: Sequence[Path], files: Sequence[Path], metrics: str, to: str, device: str, report: ReportOptions
) -> None:
    """Measure a model of any task, or an ensemble, on files like those it was trained on."""
    from headway.reports.task_reports import confusion_picture, measured_page, print_measured
    from headway.tasks.predictors import open_together

    first, *beside = models
    name, opened = " + ".join(map(str, models)), open_together(first, beside, device)
    found = (opened.with_options(to=to) if to else opened).evaluate(files)
    found = replace(found, scores=only(found.scores, metrics, name))
    if report.picture is not None:
        confusion_picture(found, report.picture)
        say_written(report.picture)
    if report.json_file is not None:
        write(report.json_file, dump_json(found.to_dict()))
    if report.html_file is not None:
        write(report.html_file, measured_page(name, found))
    print_measured(name, found, Console())


def only(scores: Scores, metrics: str, model: str) -> Scores:
    """Return the scores that were asked for; all if none was."""
    wanted = [name.strip() for name in metrics.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in scores]
    if unknown:
        raise UsageError(f"--metrics {', '.join(unknown)}: {model} is measured by {', '.join(scores)}")
    return Scores({name: scores[name] for name in wanted}) if wanted else scores


def find_outputs(
    model: Path | None,
    hypothesis: Path | None,
    test: TestOptions,
    sentences: TestSet,
    decoding: DecodingOptions,
    models: ModelOptions,
) -> tuple[Outputs, str]:
    """Return the outputs that are to be scored, and their language where a model knows it."""
    assert test.reference is not None
    if model is not None and hypothesis is not None:
        raise UsageError(f"{model} and --hypothesis {hypothesis}: give a model or a file of outputs, not both")
    if hypothesis is not None:
        return read_outputs(hypothesis, test.reference, sentences, test.limit), ""
    if model is None and sentences.sources is None:
        raise UsageError("nothing to evaluate: give a model folder, or outputs with --hypothesis")
    return translate_with(named([] if model is None else [model])[0], sentences, decoding, models, say_engine)


def with_language(test: TestSet, spoken: str, reference: Path) -> TestSet:
    """Return the test set with its language: as given, else that of the model, else by the name of the file."""
    return replace(test, language=test.language or spoken or language_of(reference))


def dump_json(content: dict[str, object]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def write(path: Path, text: str) -> None:
    """Write a report and say so."""
    replace_text(path, text)
    say_written(path)


def say_written(path: Path) -> None:
    Console(stderr=True).print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
