"""Foreign vocabularies in headway's order: padding, unknown, begin and end first, then all the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.errors import UsageError
from headway.exchange.foreign import LARGE, Foreign
from headway.model.design import LARGEST
from headway.text import files, spm
from headway.text.hub import HubPieces, open_json, renumber_json
from headway.text.hub_trial import try_json_in_child
from headway.text.renumbering import renumbered
from headway.text.sentencepieces import SentencePieces
from headway.text.spm import Kind, Piece
from headway.text.tags import tag_piece
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES, UNK

NOTHING = -1  # a row the foreign model does not have
LANGUAGE = re.compile(r">>([A-Za-z0-9_-]{1,32})<<")
FOUND = (Kind.NORMAL, Kind.USER_DEFINED, Kind.UNUSED, Kind.BYTE)  # pieces that a text can give


@dataclass(frozen=True)
class Order:
    """Which row of the foreign model each of our rows is; and our rows that must never come out."""

    rows: list[int]
    silent: tuple[int, ...] = ()

    def embedding(self, table: Tensor) -> Tensor:
        taken = table[torch.tensor([max(row, 0) for row in self.rows])]
        taken[[i for i, row in enumerate(self.rows) if row == NOTHING]] = 0
        return taken

    def bias(self, bias: Tensor, never: float) -> Tensor:
        taken = self.embedding(bias)
        taken[list(self.silent)] = never
        return taken


@dataclass(frozen=True)
class Vocabulary:
    """A tokeniser with our numbers, and the order that takes the model there."""

    tokenizer: Tokenizer
    order: Order


# ---------------------------------------------------------------- Marian


def marian_vocabularies(foreign: Foreign) -> tuple[Vocabulary, Vocabulary]:
    """Pieces are cut by sentencepiece, but numbered by vocab.json."""
    separate = foreign.has("target_vocab.json") or not foreign.config.get("share_encoder_decoder_embeddings", True)
    models = [read_model(foreign.path / name) for name in ("source.spm", "target.spm")]
    first = read_numbers(foreign, "vocab.json", "vocab_size")
    if not separate:
        names, order = marian_order(foreign, first, models)
        source, target = (cut_like(model, names) for model in models)
        return Vocabulary(source, order), Vocabulary(target, order)
    second = read_numbers(foreign, "target_vocab.json", "decoder_vocab_size")
    sides = [marian_order(foreign, table, [model]) for table, model in zip((first, second), models, strict=True)]
    source, target = (
        Vocabulary(cut_like(model, names), order) for model, (names, order) in zip(models, sides, strict=True)
    )
    return source, target


def read_model(path: Path) -> bytes:
    model = files.read(path)
    spm.try_in_child(model, str(path))
    return model


def read_numbers(foreign: Foreign, name: str, size: str) -> dict[int, str]:
    """Number -> piece, for every row of the model."""
    table = foreign.table(name)
    count = foreign.config.get(size) or foreign.config.get("vocab_size")
    numbers = {number: piece for piece, number in table.items()}
    if type(count) is not int or not 1 <= count <= LARGEST["vocabulary"]:
        raise UsageError(f"{foreign.path}: config.json gives {size} {count!r:.40}; up to 1,000,000 pieces are allowed")
    if not all(type(i) is int and 0 <= i < count for i in numbers):
        raise UsageError(f"{foreign.path / name}: numbers must be from 0 to {count - 1}, as config.json says")
    return {i: numbers.get(i, f"<unused{i}>") for i in range(count)}


def marian_order(foreign: Foreign, numbers: Mapping[int, str], models: Sequence[bytes]) -> tuple[list[str], Order]:
    """Special rows, the rest as they stand, and pieces that no row has: cut, but unknown to the model."""
    config, by_name = foreign.config, {piece: i for i, piece in numbers.items()}
    special = {
        PAD: config.get("pad_token_id", by_name.get("<pad>")),
        UNK: by_name.get("<unk>"),
        BOS: config.get("decoder_start_token_id", config.get("pad_token_id")),
        EOS: config.get("eos_token_id", by_name.get("</s>")),
    }
    if not all(type(i) is int and i in numbers for i in special.values()):
        raise UsageError(f"{foreign.path}: config.json and vocab.json do not name padding, unknown, start and end")
    rows = [int(special[i]) for i in (PAD, UNK, BOS, EOS)]  # type: ignore[arg-type]
    taken = {special[PAD], special[UNK], special[EOS]}
    if numbers[rows[BOS]] == SPECIAL_PIECES[BOS]:  # else a piece that also has a life of its own
        taken.add(special[BOS])
    rest = [i for i in numbers if i not in taken]
    unknown = sorted({p.text for m in models for p in spm.contents(m).pieces if p.kind in FOUND} - by_name.keys())
    names = [*SPECIAL_PIECES, *(numbers[i] for i in rest), *unknown]
    silent = tuple(range(len(rows) + len(rest), len(names)))
    return names, Order([*rows, *rest, *[rows[UNK]] * len(unknown)], silent)


def cut_like(model: bytes, names: Sequence[str]) -> SentencePieces:
    """A sentencepiece model that cuts as before, with these names in this order."""
    algorithm, pieces = spm.contents(model)
    known = {piece.text: piece for piece in pieces if piece.kind in FOUND}
    # A piece of the other side must not be cut here. Unused ones are passed over, but only by the unigram algorithm.
    absent = Kind.UNUSED if algorithm == spm.UNIGRAM else Kind.CONTROL
    special = [Piece(name, 0.0, Kind.UNKNOWN if i == UNK else Kind.CONTROL) for i, name in enumerate(SPECIAL_PIECES)]
    known = {text: piece for text, piece in known.items() if text not in SPECIAL_PIECES}
    rest = [known.get(name) or other(name, i, absent) for i, name in enumerate(names[len(special) :], len(special))]
    return SentencePieces(renumbered(model, [*special, *rest]))


def other(name: str, index: int, absent: int) -> Piece:
    """What this side cannot give: a language, something special, or a piece of the other side."""
    language = LANGUAGE.fullmatch(name)
    if language:
        return Piece(tag_piece(language[1]), 0.0, Kind.CONTROL)
    if name in SPECIAL_PIECES:
        return Piece(f"{name}#{index}", 0.0, Kind.CONTROL)
    return Piece(name, 0.0, Kind.CONTROL if name.startswith("<unused") else absent)


# ---------------------------------------------------------------- language models


def language_model_vocabulary(foreign: Foreign) -> Vocabulary:
    size = foreign.config.get("vocab_size")
    if type(size) is not int or not 1 <= size <= LARGEST["vocabulary"]:
        raise UsageError(f"{foreign.path}: config.json gives vocab_size {size!r}; a number up to 1,000,000 is needed")
    if foreign.has("tokenizer.model"):
        return sentencepiece_vocabulary(foreign, size)
    return hub_vocabulary(foreign, size)


def sentencepiece_vocabulary(foreign: Foreign, size: int) -> Vocabulary:
    model = read_model(foreign.path / "tokenizer.model")
    pieces = spm.contents(model).pieces
    names = {i: piece.text for i, piece in enumerate(pieces[:size])}
    special = special_rows(foreign.config, size) | {
        UNK: next(i for i, p in enumerate(pieces) if p.kind == Kind.UNKNOWN)
    }
    order = language_model_order(special, set(range(size)))
    rest = [names.get(row, f"<unused{row}>") for row in order.rows[len(SPECIAL_PIECES) :]]
    return Vocabulary(cut_like(model, [*SPECIAL_PIECES, *rest]), order)


def hub_vocabulary(foreign: Foreign, size: int) -> Vocabulary:
    text = hub_text(foreign)
    order = language_model_order(special_rows(foreign.config, size), hub_numbers(foreign.path, text) & {*range(size)})
    numbers = {row: i for i, row in reversed(list(enumerate(order.rows))) if row != NOTHING}
    numbers |= {row: i for i, row in enumerate(order.rows) if i == EOS}  # where begin and end are one, it is the end
    given = dict(zip(SPECIAL_PIECES, range(len(SPECIAL_PIECES)), strict=True))
    free = {name: i for name, i in given.items() if i not in numbers.values()}
    try:
        return Vocabulary(HubPieces(renumber_json(text, numbers, free)), order)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{foreign.path}: tokenizer.json cannot be used: {error}") from None


def hub_numbers(path: Path, text: str) -> set[int]:
    """All numbers it can give; rows beyond them only fill up the model's table."""
    try:
        return set(open_json(text).get_vocab(with_added_tokens=True).values())
    except ValueError as error:
        raise UsageError(f"{path}: tokenizer.json cannot be used: {error}") from None


def hub_text(foreign: Foreign) -> str:
    """tokenizer.json, or one made of GPT-2's older two files."""
    if foreign.has("tokenizer.json"):
        data = files.read(foreign.path / "tokenizer.json")
        try_json_in_child(data, str(foreign.path / "tokenizer.json"))
        return data.decode("utf-8")
    if not (foreign.has("vocab.json") and foreign.has("merges.txt")):
        raise UsageError(
            f"{foreign.path} has no tokeniser: tokenizer.model, tokenizer.json, or vocab.json and merges.txt"
        )
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    lines = files.read(foreign.path / "merges.txt").decode("utf-8", errors="replace").split("\n")
    merges = [(left, right) for left, _, right in (line.partition(" ") for line in lines if line[:1] != "#") if right]
    made = Tokenizer(BPE(foreign.table("vocab.json", LARGE), merges))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return made.to_str()


def special_rows(config: Mapping[str, Any], size: int) -> dict[int, int]:
    """Which rows are begin and end; of several ends the first counts."""
    names = {BOS: "bos_token_id", EOS: "eos_token_id", PAD: "pad_token_id"}
    found = {ours: first(config.get(theirs)) for ours, theirs in names.items()}
    missing = next((names[ours] for ours in (BOS, EOS) if not isinstance(found[ours], int)), None)
    if missing or not all(row is None or 0 <= row < size for row in found.values()):
        raise UsageError(f"config.json gives no usable {missing or 'special ids'}; numbers below {size:,} are needed")
    pad = found[PAD] if found[PAD] not in (found[BOS], found[EOS], None) else NOTHING
    return {PAD: pad, UNK: NOTHING, BOS: found[BOS], EOS: found[EOS]}  # type: ignore[dict-item]


def first(value: Any) -> int | None:
    value = value[0] if isinstance(value, list) and value else value
    return value if type(value) is int else None


def language_model_order(special: Mapping[int, int], rows: set[int]) -> Order:
    return Order([*(special[i] for i in (PAD, UNK, BOS, EOS)), *sorted(rows - set(special.values()))])
