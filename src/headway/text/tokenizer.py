"""The seam between text and numbers: what every tokeniser can do, and the family of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, SupportsInt, runtime_checkable

from headway.errors import UsageError
from headway.text.characters import CHARACTERS, Characters
from headway.text.hub import HubPieces
from headway.text.segmenting import Segmenter
from headway.text.sentencepieces import SentencePieces
from headway.text.subword import Subword
from headway.text.symbols import SymbolTokenizer
from headway.text.words import WORDS, Words

Text = Subword | Characters | Words

__all__ = ["Characters", "Subword", "Text", "Tokenizer", "Words", "load"]


@runtime_checkable
class Tokenizer(Protocol):
    """Raw text to numbers and back. Ids 0 to 3 are padding, unknown, begin and end; then come the tags."""

    tags: dict[str, int]  # language -> id of `<2language>`, which no text can produce
    fingerprint: str  # two tokenisers with the same one do the same

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin or end. Nothing in a text gives a special piece or a tag."""
        ...

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]: ...

    def decode(self, ids: Iterable[SupportsInt]) -> str:
        """The text of the ids; special pieces and tags are silent, unknown shows as ⁇."""
        ...

    def pieces(self, text: str) -> list[str]: ...

    def piece(self, index: int) -> str: ...

    def starts_word(self, index: int) -> bool:
        """Does a new word begin with this piece?"""
        ...

    def segmenter(self, alpha: float) -> Segmenter:
        """Other ways to cut words, for sampling.Resampler."""
        ...

    def save(self, folder: Path, stem: str) -> None:
        """Write one file into the folder, for example `joint.spm`."""
        ...

    def __len__(self) -> int: ...


def load(folder: Path, stem: str, trusted: bool = False) -> Tokenizer:
    """Open what `save` wrote; `trusted` only for files of our own run, as a hostile one can crash us."""
    suffixes = (SentencePieces.suffix, CHARACTERS.suffix, WORDS.suffix, HubPieces.suffix)
    names = [f"{stem}{suffix}" for suffix in suffixes]
    found = [name for name in names if (folder / name).is_file()]
    if len(found) != 1:
        state = f"holds {' and '.join(found)}" if found else "holds no tokeniser"
        raise UsageError(f"{folder}: {state}; there must be exactly one of {', '.join(names)}")
    path = folder / found[0]
    if found[0] == names[0]:
        return SentencePieces.read(path, trusted)
    if found[0] == names[3]:
        return HubPieces.read(path, trusted)
    return SymbolTokenizer.read(path, CHARACTERS if found[0] == names[1] else WORDS)


@dataclass(frozen=True)
class Tokenizers:
    """Source and target, often one and the same."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def load(cls, folder: Path, trusted: bool = False) -> Tokenizers:
        if any(folder.glob("joint.*")):
            joint = load(folder, "joint", trusted)
            return cls(joint, joint)
        return cls(load(folder, "source", trusted), load(folder, "target", trusted))

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self.source is self.target:
            self.source.save(folder, "joint")
        else:
            self.source.save(folder, "source")
            self.target.save(folder, "target")

    @property
    def fingerprint(self) -> str:
        return f"{self.source.fingerprint}-{self.target.fingerprint}"
