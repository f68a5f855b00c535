"""headway look: a trace of a model on one text, or the embeddings of its words."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from rich.console import Console, RenderableType

from headway.commands.options import Only, command
from headway.errors import UsageError
from headway.inspection.trace_request import EVERYTHING, Edit, Head, Panel, TraceRequest
from headway.options import option
from headway.storage.files import replace_text
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.model_options import DeviceOptions

if TYPE_CHECKING:  # heavy: imported where it is used
    from headway.tasks.base import TraceView


@dataclass(frozen=True)
class Out:
    """Where the result is written instead of the terminal."""

    panel: ClassVar[str] = "Output"

    html: Path | None = option(None, "Write everything to this file as a page that needs no network.")
    png: Path | None = option(None, "Write a picture of probabilities, attention and heads, or of the beam.")
    json: Path | None = option(None, "Write the trace itself to this file.")

    def write(self, otherwise: Callable[[], RenderableType], **writers: Callable[[Path], object]) -> None:
        wanted = [(path, writer) for name, writer in writers.items() if (path := getattr(self, name)) is not None]
        for path, writer in wanted:
            writer(path)
            print(f"wrote {path}", file=sys.stderr)
        if not wanted:
            Console(highlight=False).print(otherwise())


@dataclass(frozen=True)
class TraceOptions:
    """What is traced, and what is changed before."""

    panel: ClassVar[str] = "Trace"

    beam: bool = option(False, "Show the beam search too (translations).")
    beam_size: int = option(4, "Beam size.", least=1, most=10)
    alpha: float = option(
        DecodingOptions().alpha, "Length penalty: larger values favour long outputs.", least=0, most=2
    )
    prefix: str = option("", "Begin the output with this text (translations).")
    to: str = option("", "Target language, for multilingual models.", metavar="LANGUAGE")
    ablate: tuple[str, ...] = option((), "Silence a head, such as decoder.2.cross.3. Repeatable.")
    edit: tuple[str, ...] = option((), "Replace a token of the source, such as 4=red; 4= drops it. Repeatable.")


@dataclass(frozen=True)
class DrawingOptions:
    """Which attention is drawn."""

    panel: ClassVar[str] = "Output"

    layer: int = option(-1, "Layer whose attention is drawn; -1: the last.")
    head: int | None = option(None, "Head whose attention is drawn.", default_text="the mean of all heads")


@dataclass(frozen=True)
class EmbeddingOptions:
    """Word embeddings instead of a trace."""

    panel: ClassVar[str] = "Embeddings"

    embeddings: bool = option(False, "Show nearest neighbours and a map of words instead of a trace.")
    words: str = option("", "The words to show, separated by commas.")
    tsne: bool = option(False, "Make the map by t-SNE instead of principal components.")


@command
def look(
    folder: Annotated[str, typer.Argument(help="Model folder.", show_default="the built-in model")] = "",
    sentence: Annotated[str, typer.Argument(help="A sentence or a text, or a trace that --json wrote.")] = "",
    out: Out = Out(),
    asked: TraceOptions = TraceOptions(),
    drawing: DrawingOptions = DrawingOptions(),
    embeddings: EmbeddingOptions = EmbeddingOptions(),
    devices: Annotated[DeviceOptions, Only("device")] = DeviceOptions(),
) -> None:
    """Look inside a model while it reads a text: tokens, probabilities, attention, search, layers, attributions."""
    if embeddings.embeddings:
        show_embeddings(model_of(folder), embeddings, out)
        return
    folder, sentence = folder_and_sentence(folder, sentence)
    from headway.tasks.trace_files import read_trace

    if sentence.endswith(".json"):
        found = read_trace(Path(sentence))
    else:
        found = make_trace(
            model_of(folder), sentence, devices.device, asked, lambda view: panels(view, out, asked.beam)
        )
    write(found, out, (drawing.layer, drawing.head))


def folder_and_sentence(first: str, second: str) -> tuple[str, str]:
    """Return the folder and the sentence. A single argument that is no folder is a sentence for the built-in model."""
    if not second and not os.path.isdir(first):  # a long text is no path, which Path.is_dir takes for a fault
        if os.sep in first and " " not in first and not first.endswith(".json"):
            raise UsageError(f"{first}: no such folder; for a sentence that looks like a path name the model first")
        first, second = "", first
    if not second:
        raise UsageError("give a sentence, a trace saved with --json, or --embeddings")
    return first, second


def model_of(folder: str) -> Path:
    from headway.builtin import chosen

    return chosen([Path(folder)] if folder else [])[0]


def panels(view: TraceView, out: Out, beam: bool) -> tuple[Panel, ...]:
    """Return the panels of which the output shows something; the others would take time for nothing."""
    if out.html or out.json:
        return EVERYTHING
    return view.picture_panels if out.png or beam else view.terminal_panels


def make_trace(
    folder: Path, sentence: str, device: str, asked: TraceOptions, include: Callable[[TraceView], tuple[Panel, ...]]
) -> dict[str, Any]:
    """Run the model on a sentence and trace it."""
    from headway.tasks.base import OpenOptions
    from headway.tasks.predictors import open_model
    from headway.tasks.run import TASKS
    from headway.tasks.trace import trace

    request = TraceRequest(  # a wrong one is refused before the model is loaded
        sentence, model=folder.resolve().name, target=asked.to, beam_size=asked.beam_size, alpha=asked.alpha,
        ablate=tuple(Head.parse(name) for name in asked.ablate), edit=tuple(parse_edit(text) for text in asked.edit),
    )  # fmt: skip
    model = open_model(folder, device, OpenOptions(engine="torch"))
    wanted = include(TASKS[model.kind].trace_view)
    return trace(model, replace(request, prefix=model.prefix_ids(asked.prefix), include=wanted))


def parse_edit(text: str) -> Edit:
    place, equals, piece = text.partition("=")
    if not equals or not place.strip().isdigit():
        raise UsageError(
            f"--edit {text}: write position=token, such as 4=red, or 4= to drop a token; positions count from 0"
        )
    return Edit(int(place), piece)


def write(found: dict[str, Any], out: Out, reading: tuple[int, int | None]) -> None:
    """Files where they were asked for, else the terminal."""
    from headway.inspection.trace_page import document
    from headway.tasks.trace_files import draw, draw_picture, save_trace

    out.write(
        json=lambda path: save_trace(found, path),
        html=lambda path: replace_text(path, document(found)),
        png=lambda path: draw_picture(found, path, *reading),
        otherwise=lambda: draw(found, *reading),
    )


def show_embeddings(folder: Path, asked: EmbeddingOptions, out: Out) -> None:
    from headway.inspection.embedding_map import words_page, words_picture, words_table
    from headway.inspection.embeddings import neighbourhood
    from headway.tasks.translation.translator import Translator

    named = [word.strip() for word in asked.words.split(",") if word.strip()]
    model = folder.resolve().name
    translator = Translator.load(folder, "cpu", "torch")
    found = neighbourhood(translator.tokenizers.source, translator.model.source_embedding, named, asked.tsne)
    out.write(
        json=lambda path: replace_text(path, json.dumps(found.to_dict(), ensure_ascii=False) + "\n"),
        html=lambda path: replace_text(path, words_page(found, model)),
        png=lambda path: words_picture(found, path, model),
        otherwise=lambda: words_table(found),
    )
