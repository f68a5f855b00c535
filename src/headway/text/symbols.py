"""A fixed list of symbols, characters or words, and their numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, SupportsInt

from headway.errors import UsageError
from headway.text import files
from headway.text.segmenting import Segmenter, Unchanged
from headway.text.tags import tag_piece
from headway.text.unicode import UNKNOWN, mend
from headway.text.vocabulary import SPECIAL_PIECES, UNK


class Spelling(NamedTuple):
    """How a text falls into symbols and how symbols make a text."""

    suffix: str  # of the file the symbols are kept in
    split: Callable[[str], list[str]]
    join: Callable[[Iterable[str]], str]
    starts_word: Callable[[str], bool]


class SymbolTokenizer:
    """Special pieces first, then tags, then the symbols. What is not among them is unknown."""

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
            raise UsageError(f"{path}: must hold two lists of different strings, symbols and tags; copy it again")
        return cls(spelling, symbols, tags)

    def encode(self, text: str) -> list[int]:
        ids = self._ids
        return [ids.get(symbol, UNK) for symbol in self._spelling.split(mend(text))]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def pieces(self, text: str) -> list[str]:
        return [self._names[i] for i in self.encode(text)]

    def decode(self, ids: Iterable[SupportsInt]) -> str:
        """Special pieces and tags are silent; an unknown symbol shows as ⁇."""
        return self._spelling.join(self._shown[int(i)] for i in ids if int(i) in self._shown)

    def piece(self, index: int) -> str:
        return self._names[index]

    def starts_word(self, index: int) -> bool:
        return index in self._shown and self._spelling.starts_word(self._names[index])

    def __len__(self) -> int:
        return len(self._names)

    def segmenter(self, alpha: float) -> Segmenter:
        """Symbols cannot be cut differently."""
        return Unchanged()

    def save(self, folder: Path, stem: str) -> None:
        files.write(folder / f"{stem}{self._spelling.suffix}", self._serialised)


def _strings(table: Any, name: str) -> list[str] | None:
    """A list of different strings, or None."""
    found = table.get(name) if isinstance(table, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        return None
    return found if len(set(found)) == len(found) else None
