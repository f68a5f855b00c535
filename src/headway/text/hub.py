"""A tokenizer.json, as many published language models have it, read by the `tokenizers` library."""

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

WORD_MARKS = (SPACE_MARK, "Ġ")  # how pieces write the space before a word


class HubPieces:
    """Pieces of another toolkit, with headway's numbers: padding, unknown, begin and end first."""

    suffix = ".tokenizer.json"

    def __init__(self, text: str) -> None:
        self.text = text
        self.fingerprint: str = hashlib.sha256(text.encode()).hexdigest()
        self.tags: dict[str, int] = {}
        self._inner = open_json(text)
        self._size: int = 1 + max(self._inner.get_vocab(with_added_tokens=True).values(), default=EOS)

    @classmethod
    def read(cls, path: Path, trusted: bool) -> HubPieces:
        """Open a file; one of unknown origin is tried in another process first."""
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
        """Its pieces are cut in one way."""
        return Unchanged()

    def save(self, folder: Path, stem: str) -> None:
        files.write(folder / f"{stem}{self.suffix}", self.text.encode())

    def __len__(self) -> int:
        return self._size


def open_json(text: str) -> Any:
    """The library's tokeniser; special pieces written out in a text are text to it."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError("a tokenizer.json needs the tokenizers package; pip install 'headway-mt[hf]'") from None
    try:
        inner = Tokenizer.from_str(text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library's panics are not exceptions
        raise ValueError(" ".join(str(error).split())[:200]) from None
    inner.encode_special_tokens = True
    inner.no_truncation()
    inner.no_padding()
    inner.post_processor = None  # what it puts around a text is never asked for; a template can repeat a text
    return inner


def renumber_json(text: str, numbers: dict[int, int], specials: dict[str, int]) -> str:
    """The same cuts with other numbers (old -> new), nothing put around a text, and `specials` added by name."""
    table = json.loads(text)
    vocabulary = table["model"]["vocab"]
    if not isinstance(vocabulary, dict):
        raise UsageError(f"tokenizer.json: a model of type {table['model'].get('type')!r}; only BPE can be imported")
    # Special pieces stand in the vocabulary too: the library numbers anew what it does not find there.
    table["model"]["vocab"] = specials | {piece: numbers[i] for piece, i in vocabulary.items() if i in numbers}
    added = [one | {"id": numbers[one["id"]]} for one in table.get("added_tokens", ()) if one["id"] in numbers]
    names = {one["content"] for one in added}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added += [{"id": i, "content": name, **plain} for name, i in specials.items() if name not in names]
    table["added_tokens"] = sorted(added, key=lambda one: one["id"])
    table["post_processor"] = table["truncation"] = table["padding"] = None
    return json.dumps(table, ensure_ascii=False)
