"""Traces of labels, classes and foresight in a terminal."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.inspection.console import BANDS, baseline, colour, matrix, pieces_table, plain, written
from headway.inspection.words import word_attention
from headway.text.unicode import plain as harmless
from headway.text.vocabulary import BOS

BAR = 40  # signs of a whole bar
LABELS = 3  # shown beside a word's own


def tagging(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> RenderableType:
    """The sentence with its spans, then every word with its labels."""
    parts: list[RenderableType] = [sentence(trace), key(), Text(), words_table(trace["words"])]
    return Group(*parts, *endings(trace, layer, head))


def classification(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> RenderableType:
    """Bars for the classes, then what each piece counted."""
    parts: list[RenderableType] = [
        Text(harmless(trace["source"]["text"]), style="dim"),
        classes_table(trace["classes"]),
    ]
    return Group(*parts, Text(), pooling_table(trace), *endings(trace, layer, head))


def language_model(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> RenderableType:
    """The text in the colours of its probabilities, then every piece with what else could have come."""
    target, memory = trace["target"], trace["memory"]
    read = f"with a memory of {memory['length']} pieces" if memory["length"] else f"in windows of {memory['segment']}"
    told = f"log-probability {target['logp']:.3f}, {-target['score']:.3f} nats a piece; read {read}"
    parts: list[RenderableType] = [written(target["pieces"]), key(), Text(told, style="dim"), Text()]
    return Group(*parts, pieces_table(trace), *endings(trace, layer, head))


def endings(trace: dict[str, Any], layer: int, head: int | None) -> list[RenderableType]:
    """What a change did, and where the model looked."""
    parts: list[RenderableType] = []
    if trace.get("baseline"):
        parts += [Text(), baseline(trace["baseline"], trace["target"])]
    if "attention" in trace:
        ((stack, packed),) = trace["attention"].items()
        reading = "mean of its heads" if head is None else f"head {head}"
        where = f"{stack} layer {layer % packed['shape'][0]}, {reading}"
        parts += [Text(), matrix(word_attention(trace, layer, head), f"Where it looked ({where})")]
    return parts


def key() -> Text:
    return Text(" ").join(Text(f"≥{least:.0%}", style=name) for least, name in BANDS)


# ---------------------------------------------------------------- labels


def sentence(trace: dict[str, Any]) -> Text:
    """Spans in brackets, or every word with its label, in the colour of its probability."""
    words, spans = trace["words"], trace["spans"]
    if spans is None:
        return Text(" ").join(
            Text(f"{harmless(one['text'])}/{harmless(one['label'])}", colour(one["p"])) for one in words
        )
    owner = {place: number for number, span in enumerate(spans) for place in range(span["start"], span["end"])}
    parts: list[Text] = []
    for number, group in groupby(range(len(words)), key=lambda place: owner.get(place)):
        inside = [words[place] for place in group]
        text = harmless(" ".join(one["text"] for one in inside))
        if number is None:
            parts.append(Text(text))
        else:
            sure = min(one["p"] for one in inside)
            parts.append(Text(f"[{text} {harmless(spans[number]['kind'])}]", style=colour(sure)))
    return Text(" ").join(parts)


def words_table(words: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("word", no_wrap=True)
    table.add_column("label")
    table.add_column("probability", justify="right")
    table.add_column("others")
    for one in words:
        others = [other for other in one["top"] if other["label"] != one["label"] and other["p"] >= 0.005][:LABELS]
        told = "  ".join(f"{harmless(other['label'])} {other['p']:.0%}" for other in others)
        label = Text(harmless(one["label"]), style=colour(one["p"]))
        table.add_row(Text(harmless(one["text"])), label, f"{one['p']:.1%}", Text(told, style="dim"))
    return table


# ---------------------------------------------------------------- classes


def classes_table(classes: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("class")
    table.add_column("probability", justify="right")
    table.add_column()
    for one in classes:
        bar = Text("█" * round(BAR * one["p"]), style="cyan" if one["chosen"] else "dim")
        table.add_row(Text(harmless(one["label"]), style="bold" if one["chosen"] else ""), f"{one['p']:.1%}", bar)
    return table


def pooling_table(trace: dict[str, Any]) -> Table:
    """Every piece: its share of the text's vector, and what leaving it out takes from the likeliest class."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("piece", no_wrap=True)
    table.add_column("pooled", justify="right")
    worth = trace.get("occlusion")
    table.add_column(f"for {harmless(worth['labels'][0])}, in nats" if worth else "", justify="right")
    for place, (piece, share) in enumerate(zip(trace["source"]["pieces"], trace["pooling"], strict=True)):
        told = f"{worth['data'][place]:+.3f}" if worth and piece["id"] != BOS else ""
        table.add_row(plain(piece["text"]), f"{share:.1%}", told)
    return table
