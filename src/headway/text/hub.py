"""Tokenisers in Hugging Face's tokenizer.json format, run by the `tokenizers` library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, SupportsInt

from headway.errors import UsageError
from headway.text import files
from headway.text.hub_trial import try_json_in_child
from headway.text.segmenting import Segmenter, Unchanged
from headway.text.unicode import SPACE_MARK, mend
from headway.text.vocabulary import BOS, EOS, PAD

WORD_MARKS = (SPACE_MARK, "Ġ")  # prefixes of a token that stand for the space before a word


class HubPieces:
    """A tokenizer.json whose ids were renumbered: padding, unknown, begin and end are 0 to 3."""

    suffix = ".tokenizer.json"

    def __init__(self, text: str) -> None:
        self.text = text
        self.fingerprint: str = hashlib.sha256(text.encode()).hexdigest()
        self.tags: dict[str, int] = {}
        self._inner = open_json(text)
        self._size: int = 1 + max(self._inner.get_vocab(with_added_tokens=True).values(), default=EOS)

    @classmethod
    def read(cls, path: Path, trusted: bool) -> HubPieces:
        """Open a tokenizer.json; unless `trusted`, it is first opened in a child process with limited memory."""
        data = files.read(path)
        if not trusted:
            try_json_in_child(data, str(path))
        try:
            return cls(data.decode("utf-8"))
        except ValueError as error:
            raise UsageError(f"{path}: not a tokenizer.json in UTF-8 ({error}); copy it again") from None

    def encode(self, text: str) -> list[int]:
        return self._inner.encode(mend(text), add_special_tokens=False).ids

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in self._inner.encode_batch([mend(text) for text in texts], add_special_tokens=False)]

    def decode(self, ids: Iterable[SupportsInt]) -> str:
        said = [int(i) for i in ids]
        return self._inner.decode([i for i in said if i not in (PAD, BOS, EOS)], skip_special_tokens=True)

    def pieces(self, text: str) -> list[str]:
        return [self.piece(i) for i in self.encode(text)]

    def piece(self, index: int) -> str:
        return self._inner.id_to_token(index) or f"<unused{index}>"

    def starts_word(self, index: int) -> bool:
        return self.piece(index).startswith(WORD_MARKS)

    def segmenter(self, alpha: float) -> Segmenter:
        """Return a segmenter that changes nothing: this tokeniser has no subword regularisation."""
        return Unchanged()

    def save(self, folder: Path, stem: str) -> None:
        files.write(folder / f"{stem}{self.suffix}", self.text.encode())

    def __len__(self) -> int:
        return self._size


def open_json(text: str) -> Any:
    """Return the library's tokeniser, which treats special tokens that are written in a text as ordinary text."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError("tokenizer.json needs the package tokenizers; run pip install 'headway-mt[hf]'") from None
    try:
        inner = Tokenizer.from_str(text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library's panics do not derive from Exception
        raise ValueError(" ".join(str(error).split())[:200]) from None
    inner.encode_special_tokens = True
    inner.no_truncation()
    inner.no_padding()
    inner.post_processor = None  # not needed, and a hostile template could repeat the text many times
    return inner


def renumber_json(text: str, numbers: dict[int, int], specials: dict[str, int]) -> str:
    """Return a tokenizer.json with the ids of `numbers` (old -> new) and without post-processing.

    `specials` (name -> id) are added as special tokens.
    """
    table = json.loads(text)
    if not isinstance(table["model"]["vocab"], dict):
        raise UsageError(
            f"tokenizer.json: its model has the type {table['model'].get('type')!r}; only BPE can be imported"
        )
    vocabulary: dict[str, int] = table["model"]["vocab"]
    # Special tokens must be in the vocabulary too: the library gives new ids to those it does not find there.
    table["model"]["vocab"] = specials | {piece: numbers[i] for piece, i in vocabulary.items() if i in numbers}
    added = [one | {"id": numbers[one["id"]]} for one in table.get("added_tokens", ()) if one["id"] in numbers]
    names = {one["content"] for one in added}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added += [{"id": i, "content": name, **plain} for name, i in specials.items() if name not in names]
    table["added_tokens"] = sorted(added, key=lambda one: one["id"])
    table["post_processor"] = table["truncation"] = table["padding"] = None
    return json.dumps(table, ensure_ascii=False)
