"""Words of a trace, and attention between words instead of pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headway.errors import UsageError
from headway.storage.byte_tables import unpack
from headway.text.unicode import SPACE_MARK
from headway.text.vocabulary import BOS

BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")


class Span(NamedTuple):
    """A word as a run of pieces."""

    text: str
    first: int
    end: int


class Matrix(NamedTuple):
    """Who looks at whom, with names."""

    rows: list[str]
    columns: list[str]
    weights: Float[Tensor, "r c"]


def plain(piece: str) -> str:
    """Return a piece without the mark of a word's beginning."""
    return piece.replace(SPACE_MARK, "") or "␣"


def spell_word(pieces: Sequence[str]) -> str:
    """Return the word that pieces spell; characters spelled in bytes are decoded."""

    def characters(run: re.Match[str]) -> str:
        return bytes.fromhex(run[0].replace("<0x", "").replace(">", "")).decode(errors="replace")

    return plain(BYTES.sub(characters, "".join(pieces)))


def spans(pieces: Sequence[dict[str, Any]]) -> list[Span]:
    found: list[Span] = []
    for _, group in groupby(enumerate(pieces), key=lambda pair: (pair[1]["word"], pair[1]["id"] < 4)):
        run = list(group)
        found.append(Span(spell_word([piece["text"] for _, piece in run]), run[0][0], run[-1][0] + 1))
    return found


def layer_weights(packed: dict[str, Any], layer: int = -1, head: int | None = None) -> Float[Tensor, "q k"]:
    """Return the weights of one head, or the mean of a layer's heads."""
    table = unpack(packed)
    layers, heads = table.shape[:2]
    if not -layers <= layer < layers or not 0 <= (head or 0) < heads:
        raise UsageError(f"there are layers 0 to {layers - 1} with heads 0 to {heads - 1}, not {layer} and {head}")
    return table[layer].mean(dim=0) if head is None else table[layer, head]


def word_alignment(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> Matrix:
    """Return how much each word of a translation looks at each word of its source."""
    rows, columns = trace["target"]["pieces"], trace["source"]["pieces"]
    return by_words(layer_weights(trace["attention"]["cross"], layer, head), rows, columns)


def word_attention(trace: dict[str, Any], layer: int = -1, head: int | None = None) -> Matrix:
    """Return how much each word of a text looks at each other one, in a model of one stack."""
    ((stack, packed),) = trace["attention"].items()
    pieces = trace["source"]["pieces"]
    if len({piece["word"] for piece in pieces} - {-1}) == 1:  # characters, or a script without spaces
        pieces = [{**piece, "word": number} for number, piece in enumerate(pieces)]
    begin = {"id": BOS, "text": "<s>", "word": -1}
    columns = {"encoder": pieces, "decoder": [begin, *pieces[:-1]]}[stack]
    return by_words(layer_weights(packed, layer, head), pieces, columns)


def by_words(
    weights: Float[Tensor, "q k"], queries: Sequence[dict[str, Any]], keys: Sequence[dict[str, Any]]
) -> Matrix:
    """Return weights between words: sums over the pieces looked at, means over the pieces that look."""
    rows, columns = spans(queries), spans(keys)
    by_source = torch.stack([weights[:, one.first : one.end].sum(dim=1) for one in columns], dim=1)
    table = torch.stack([by_source[one.first : one.end].mean(dim=0) for one in rows])
    return Matrix([one.text for one in rows], [one.text for one in columns], table)
