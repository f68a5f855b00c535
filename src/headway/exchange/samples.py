"""Sentences on which an export must agree with its model."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from headway.data.formats import lines
from headway.errors import UsageError
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import SPECIAL_PIECES

MOST = 16  # sentences tried
PROBES = (1, 3, 6, 10, 15, 22)  # pieces in each sentence made up
LOG_LIMIT = 64 << 20  # bytes of metrics.jsonl that are looked through


def sample_sentences(folder: Path, tokenizer: Tokenizer, sample: Path | None) -> list[str]:
    """Those of the file; or those the run was validated on, and some made up of the model's own pieces."""
    if sample is None:
        logged = list(dict.fromkeys(logged_sentences(folder / "metrics.jsonl")))
        return [*logged[-(MOST - len(PROBES)) :], *probes(tokenizer)]
    found = [line.text.strip() for line in lines(sample, "skip") if line.text and line.text.strip()]
    if not found:
        raise UsageError(f"--sample {sample}: no sentence in it; give a text file in UTF-8, one sentence a line")
    return found[:MOST]


def logged_sentences(path: Path) -> Iterator[str]:
    """The sources of the samples that validation wrote down. A line that cannot be read is passed over."""
    if not path.is_file() or path.stat().st_size > LOG_LIMIT:
        return
    for line in path.read_bytes().splitlines():
        try:
            source = json.loads(line)["sample"]["source"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(source, str) and source.strip():
            yield source.strip()


def probes(tokenizer: Tokenizer) -> list[str]:
    """Sentences of random pieces, always the same: nonsense, but in the model's own alphabet."""
    dice = random.Random(0)
    first = len(SPECIAL_PIECES) + len(tokenizer.tags)
    pieces = [i for i in range(first, len(tokenizer)) if plain(tokenizer.piece(i))]
    made = (tokenizer.decode(dice.choices(pieces, k=count)).strip() for count in PROBES if pieces)
    return [text for text in made if text]


def plain(piece: str) -> bool:
    """Not a byte, and nothing that a text cannot hold."""
    return not (piece.startswith("<0x") and piece.endswith(">")) and piece.isprintable()
