"""headway look: inside what a model makes of one text, or among the words it knows."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, RenderableType

from headway.errors import UsageError
from headway.inspection.trace_request import EVERYTHING, Edit, Head, Panel, TraceRequest
from headway.storage.files import replace_text

if TYPE_CHECKING:  # heavy: imported where it is used
    from headway.tasks.base import TraceView

Option = typer.Option


@dataclass(frozen=True)
class Out:
    """Where to write."""

    json: Path | None
    html: Path | None
    png: Path | None

    def write(self, otherwise: Callable[[], RenderableType], **writers: Callable[[Path], object]) -> None:
        wanted = [(path, writer) for name, writer in writers.items() if (path := getattr(self, name)) is not None]
        for path, writer in wanted:
            writer(path)
            print(f"wrote {path}", file=sys.stderr)
        if not wanted:
            Console(highlight=False).print(otherwise())


def look(
    folder: Annotated[str, typer.Argument(help="Model folder; may be left out where a model comes along.")] = "",
    sentence: Annotated[str, typer.Argument(help="A sentence or a text, or a trace saved with --json.")] = "",
    html: Annotated[Path | None, Option(help="Write a page with everything; it needs no network.")] = None,
    png: Annotated[
        Path | None, Option(help="Write a picture: probabilities, attention, heads; the beam of a translation.")
    ] = None,
    json_: Annotated[Path | None, Option("--json", help="Write the trace itself.")] = None,
    beam: Annotated[bool, Option(help="Translations: show the search too.")] = False,
    ablate: Annotated[list[str] | None, Option(help="Silence a head, such as decoder.2.cross.3; repeatable.")] = None,
    edit: Annotated[list[str] | None, Option(help="Replace a source piece, such as 4=red; 4= drops it.")] = None,
    prefix: Annotated[str, Option(help="Translations: begin the output with this.")] = "",
    to: Annotated[str, Option(help="Target language, for multilingual models.")] = "",
    beam_size: Annotated[int, Option(help="Hypotheses that grow together, 1 to 10.")] = 4,
    alpha: Annotated[float, Option(help="How much long outputs are favoured, 0 to 2.")] = 0.6,
    layer: Annotated[int, Option(help="Layer whose attention is drawn; -1: the last.")] = -1,
    head: Annotated[int | None, Option(help="One of its heads; unset: their mean.")] = None,
    embeddings: Annotated[bool, Option(help="Show nearest neighbours and a map of words instead.")] = False,
    words: Annotated[str, Option(help="With --embeddings: these words, with commas between.")] = "",
    tsne: Annotated[bool, Option(help="With --embeddings: a map by t-SNE instead of principal components.")] = False,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Look inside what a model makes of a text: pieces, probabilities, attention, search, stages, causes."""
    out = Out(json_, html, png)
    if embeddings:
        show_embeddings(model_of(folder), words, tsne, out)
        return
    folder, sentence = told_apart(folder, sentence)
    from headway.tasks.trace_files import read_trace

    if sentence.endswith(".json"):
        found = read_trace(Path(sentence))
    else:
        asked = {"ablate": ablate or [], "edit": edit or [], "prefix": prefix, "target": to}
        asked |= {"beam_size": beam_size, "alpha": alpha}
        found = make(model_of(folder), sentence, device, asked, lambda view: panels(view, out, beam))
    write(found, out, (layer, head))


def told_apart(first: str, second: str) -> tuple[str, str]:
    """The folder and the sentence; one argument that is no folder is a sentence for the model of the package."""
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


def make(
    folder: Path, sentence: str, device: str, asked: dict[str, Any], include: Callable[[TraceView], tuple[Panel, ...]]
) -> dict[str, Any]:
    """Open the model, and return a trace of the sentence."""
    from headway.tasks.base import OpenOptions
    from headway.tasks.predictors import open_model
    from headway.tasks.run import TASKS
    from headway.tasks.trace import trace

    asked["ablate"] = tuple(Head.parse(name) for name in asked["ablate"])
    asked["edit"] = tuple(parse_edit(text) for text in asked["edit"])
    prefix = asked.pop("prefix")
    request = TraceRequest(sentence, model=folder.resolve().name, **asked)  # a wrong one is told before loading
    model = open_model(folder, device, OpenOptions(engine="torch"))
    wanted = include(TASKS[model.kind].trace_view)
    return trace(model, replace(request, prefix=model.prefix_ids(prefix), include=wanted))


def parse_edit(text: str) -> Edit:
    place, equals, piece = text.partition("=")
    if not equals or not place.strip().isdigit():
        raise UsageError(f"--edit {text}: write place=piece, such as 4=red, or 4= to drop a piece; places count from 0")
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


def show_embeddings(folder: Path, words: str, tsne: bool, out: Out) -> None:
    from headway.inspection.embedding_map import words_page, words_picture, words_table
    from headway.inspection.embeddings import neighbourhood
    from headway.tasks.translation.translator import Translator

    named = [word.strip() for word in words.split(",") if word.strip()]
    model = folder.resolve().name
    translator = Translator.load(folder, "cpu", "torch")
    found = neighbourhood(translator.tokenizers.source, translator.model.source_embedding, named, tsne)
    out.write(
        json=lambda path: replace_text(path, json.dumps(found.to_dict(), ensure_ascii=False) + "\n"),
        html=lambda path: replace_text(path, words_page(found, model)),
        png=lambda path: words_picture(found, path, model),
        otherwise=lambda: words_table(found),
    )
