"""Parts of a trace in a terminal that several tasks show."""

from __future__ import annotations

import math
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.inspection import words
from headway.inspection.words import Matrix, word_attention
from headway.text.unicode import SPACE_MARK
from headway.text.unicode import plain as harmless
from headway.text.vocabulary import EOS

SHADES = " ░▒▓█"
BANDS = ((0.9, "green"), (0.6, "cyan"), (0.3, "yellow"), (0.0, "red"))  # probabilities and their colours
MOST_COLUMNS = 40  # words of the source that fit beside each other
OTHERS, LEAST = 4, math.log(0.005)  # alternatives of a piece, and how likely they must be


def plain(piece: str) -> str:
    return harmless(words.plain(piece))


def colour(probability: float) -> str:
    return next(name for least, name in BANDS if probability >= least)


def colour_pieces(pieces: list[dict[str, Any]]) -> Text:
    """Return pieces in the colours of their probabilities; an end inside a text is an end of a line."""
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


def baseline(before: dict[str, Any], target: dict[str, Any]) -> Text:
    """Return what changed, in log-probabilities of the old output before and now."""
    same = "the same output" if before["text"] == target["text"] else f"{len(before['changed'])} pieces are new"
    told = (
        [same]
        if before["logp"] is None
        else [f"log-probability {before['logp']:.3f}, now {before['logp_now']:.3f}", same]
    )
    return Text.assemble(("Without the change: ", "dim"), harmless(before["text"]), (f"  ({'; '.join(told)})", "dim"))


def matrix(found: Matrix, title: str) -> RenderableType:
    """Return a table of shaded weights: who looks down, who is looked at across. Columns are numbered below."""
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


def probability_key() -> Text:
    """Return the colours of probabilities."""
    return Text(" ").join(Text(f"≥{least:.0%}", style=name) for least, name in BANDS)


def changes_and_attention(trace: dict[str, Any], layer: int, head: int | None) -> list[RenderableType]:
    """Return what a change did and where a model of one stack looked, as far as the trace tells."""
    parts: list[RenderableType] = []
    if trace.get("baseline"):
        parts += [Text(), baseline(trace["baseline"], trace["target"])]
    if "attention" in trace:
        ((stack, packed),) = trace["attention"].items()
        reading = "mean of its heads" if head is None else f"head {head}"
        where = f"{stack} layer {layer % packed['shape'][0]}, {reading}"
        parts += [Text(), matrix(word_attention(trace, layer, head), f"Where it looked ({where})")]
    return parts
