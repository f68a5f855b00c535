"""Tokeniser with a fixed list of symbols, which are characters or words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, SupportsInt, cast

from headway.errors import UsageError
from headway.text import files
from headway.text.segmenting import Segmenter, Unchanged
from headway.text.tags import tag_piece
from headway.text.unicode import UNKNOWN, mend
from headway.text.vocabulary import SPECIAL_PIECES, UNK


class Spelling(NamedTuple):
    """Functions that split a text into symbols and join symbols to a text."""

    suffix: str  # suffix of the tokeniser file
    split: Callable[[str], list[str]]
    join: Callable[[Iterable[str]], str]
    starts_word: Callable[[str], bool]


class SymbolTokenizer:
    """A tokeniser whose ids are special tokens, then language tags, then symbols. Other symbols are unknown."""

    def __init__(self, spelling: Spelling, symbols: Sequence[str], tags: Sequence[str] = ()) -> None:
        self._spelling = spelling
        first_tag, first = len(SPECIAL_PIECES), len(SPECIAL_PIECES) + len(tags)
        self.tags: dict[str, int] = {tag: first_tag + i for i, tag in enumerate(tags)}
        self._names = [*SPECIAL_PIECES, *map(tag_piece, tags), *symbols]
        self._ids = {symbol: first + i for i, symbol in enumerate(symbols)}
        table = {"tags": list(tags), "symbols": list(symbols)}
        self._serialised = json.dumps(table, ensure_ascii=False, indent=0).encode("utf-8")
        self.fingerprint: str = hashlib.sha256(self._serialised).hexdigest()
        self._shown = {UNK: UNKNOWN} | {i: symbol for symbol, i in self._ids.items()}

    @classmethod
    def read(cls, path: Path, spelling: Spelling) -> SymbolTokenizer:
        try:
            table = files.parse_json(files.read(path))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}: not JSON in UTF-8 ({error}); copy the file again") from None
        symbols, tags = (_strings(table, name) for name in ("symbols", "tags"))
        if symbols is None or tags is None:
            raise UsageError(f"{path}: must have two lists of distinct strings, symbols and tags; copy the file again")
        return cls(spelling, symbols, tags)

    def encode(self, text: str) -> list[int]:
        ids = self._ids
        return [ids.get(symbol, UNK) for symbol in self._spelling.split(mend(text))]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def pieces(self, text: str) -> list[str]:
        return [self._names[i] for i in self.encode(text)]

    def decode(self, ids: Iterable[SupportsInt]) -> str:
        """Return the text of the ids. Special tokens and tags give nothing; an unknown symbol gives ⁇."""
        return self._spelling.join(self._shown[int(i)] for i in ids if int(i) in self._shown)

    def piece(self, index: int) -> str:
        return self._names[index]

    def starts_word(self, index: int) -> bool:
        return index in self._shown and self._spelling.starts_word(self._names[index])

    def __len__(self) -> int:
        return len(self._names)

    def segmenter(self, alpha: float) -> Segmenter:
        """Return a segmenter that changes nothing: symbols cannot be split."""
        return Unchanged()

    def save(self, folder: Path, stem: str) -> None:
        files.write(folder / f"{stem}{self._spelling.suffix}", self._serialised)


def _strings(table: object, name: str) -> list[str] | None:
    """Return `table[name]` if it is a list of distinct strings, else None."""
    found = cast(dict[str, object], table).get(name) if isinstance(table, dict) else None
    items = cast(list[object], found) if isinstance(found, list) else None
    if items is None or not all(isinstance(item, str) for item in items) or len(set(items)) < len(items):
        return None
    return cast(list[str], items)
