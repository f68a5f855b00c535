"""A trace in a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.inspection import words
from headway.inspection.words import Matrix, word_alignment
from headway.text.unicode import SPACE_MARK
from headway.text.unicode import plain as harmless
from headway.text.vocabulary import EOS

SHADES = " ░▒▓█"
BANDS = ((0.9, "green"), (0.6, "cyan"), (0.3, "yellow"), (0.0, "red"))  # probabilities and their colours
MOST_COLUMNS = 40  # words of the source that fit beside each other
OTHERS, LEAST = 4, math.log(0.005)  # alternatives of a piece, and how likely they must be


def drawn(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> RenderableType:
    """All that a trace holds and a terminal can show."""
    parts: list[RenderableType] = [sentence(trace), Text(), pieces_table(trace), Text(), alternatives(trace)]
    if trace.get("baseline"):
        parts += [Text(), baseline(trace["baseline"], trace["target"])]
    if "attention" in trace:
        reading = "mean of its heads" if head is None else f"head {head}"
        where = f"decoder layer {layer % trace['model']['decoder_layers']}, {reading}"
        parts += [Text(), matrix(word_alignment(trace, layer, head), f"Where it looked ({where})")]
    if "beam" in trace:
        parts += [Text(), beam_table(trace["beam"])]
    return Group(*parts)


def plain(piece: str) -> str:
    return harmless(words.plain(piece))


def colour(probability: float) -> str:
    return next(name for least, name in BANDS if probability >= least)


def sentence(trace: dict[str, Any]) -> Text:
    """Source and output; each piece of the output has the colour of its probability."""
    key = Text(" ").join(Text(f"≥{least:.0%}", style=name) for least, name in BANDS)
    source = Text(harmless(trace["source"]["text"]), style="dim")
    return Text("\n").join([source, written(trace["target"]["pieces"]), key])


def written(pieces: list[dict[str, Any]]) -> Text:
    """Pieces in the colours of their probabilities; an end inside a text is an end of a line."""
    output = Text()
    for number, piece in enumerate(pieces, 1):
        gap = " " if piece["text"].startswith(SPACE_MARK) and len(output) else ""
        end = "" if number == len(pieces) else "\n"
        shown = end if piece["id"] == EOS else gap + plain(piece["text"])
        output.append(shown, style=colour(math.exp(piece["logp"])))
    return output


def pieces_table(trace: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("piece", no_wrap=True)
    for title in ("probability", "rank", "entropy"):
        table.add_column(title, justify="right")
    table.add_column("others")
    for piece in trace["target"]["pieces"]:
        chance = math.exp(piece["logp"])
        others = [one for one in piece["top"] if one["id"] != piece["id"] and one["logp"] > LEAST][:OTHERS]
        told = "  ".join(f"{plain(one['text'])} {math.exp(one['logp']):.0%}" for one in others)
        name = Text(harmless(piece["text"]), style=colour(chance))
        name.append(" held" if piece["forced"] else "", style="dim")
        table.add_row(name, f"{chance:.1%}", str(piece["rank"]), f"{piece['entropy']:.2f}", Text(told, style="dim"))
    return table


def alternatives(trace: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("score", justify="right")
    table.add_column("logp", justify="right")
    table.add_column("outputs")
    for one in trace["alternatives"]:
        table.add_row(f"{one['score']:.3f}", f"{one['logp']:.3f}", Text(harmless(one["text"])))
    return table


def baseline(before: dict[str, Any], target: dict[str, Any]) -> Text:
    """What changed, in log-probabilities: of the old output before and now."""
    same = "the same output" if before["text"] == target["text"] else f"{len(before['changed'])} pieces are new"
    told = (
        [same]
        if before["logp"] is None
        else [f"log-probability {before['logp']:.3f}, now {before['logp_now']:.3f}", same]
    )
    return Text.assemble(("Without the change: ", "dim"), harmless(before["text"]), (f"  ({'; '.join(told)})", "dim"))


def matrix(found: Matrix, title: str) -> RenderableType:
    """Words of the output down, words of the source across, shaded by weight. Columns are numbered below."""
    rows = [harmless(row) for row in found.rows]
    wide = max(map(cell_len, rows))
    shown = min(len(found.columns), MOST_COLUMNS)
    lines = [
        " " * (wide - cell_len(row)) + f"{row} " + "".join(shade(float(weight)) * 2 for weight in weights[:shown])
        for row, weights in zip(rows, found.weights, strict=True)
    ]
    numbers = " " * (wide + 1) + "".join(f"{index:<2}" for index in range(shown))
    names = "  ".join(f"{index} {harmless(name)}" for index, name in enumerate(found.columns[:shown]))
    return Group(
        Text(title, style="dim"), Text("\n".join(lines), no_wrap=True), Text(numbers, style="dim"), Text(names)
    )


def shade(weight: float) -> str:
    return SHADES[min(len(SHADES) - 1, math.ceil(weight * len(SHADES) - 0.5))]


def beam_table(beam: dict[str, Any]) -> Table:
    """A row for each step: what was kept, the best first, and what finished."""
    title = f"Beam of {beam['size']}, length penalty {beam['alpha']:g}"
    table = Table(box=None, pad_edge=False, header_style="dim", title=title)
    for title in ("step", "finished", "kept, the best first", "left behind"):
        table.add_column(title)
    for number, step in enumerate(beam["steps"], 1):
        fates = {fate: Text("  ").join(told(step, fate)) for fate in ("finished", "kept", "pruned")}
        table.add_row(str(number), fates["finished"], fates["kept"], fates["pruned"])
    return table


def told(step: list[dict[str, Any]], fate: str) -> Iterator[Text]:
    styles = {"finished": "green", "kept": "default", "pruned": "dim"}
    for one in step:
        if one["fate"] == fate:
            yield Text(f"{plain(one['text'])} {one['normalised']:.2f}", style=styles[fate])
