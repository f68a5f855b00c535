"""The interface of all tokenisers, and functions that open them."""

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
    """Converts raw text to ids and back. Ids 0 to 3 are padding, unknown, begin and end; language tags follow."""

    tags: dict[str, int]  # language -> id of `<2language>`, which no text can produce
    fingerprint: str  # tokenisers with equal fingerprints behave alike

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without begin and end. No text gives the id of a special token or a tag."""
        ...

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text; faster than one call of `encode` a text."""
        ...

    def decode(self, ids: Iterable[SupportsInt]) -> str:
        """Return the text of the ids. Special tokens and tags give nothing; an unknown token gives ⁇."""
        ...

    def pieces(self, text: str) -> list[str]:
        """Return the tokens of a text as strings."""
        ...

    def piece(self, index: int) -> str:
        """Return the token with this id as a string."""
        ...

    def starts_word(self, index: int) -> bool:
        """Return whether a new word begins with the token of this id."""
        ...

    def segmenter(self, alpha: float) -> Segmenter:
        """Return a sampler of other segmentations of words, with strength `alpha`, for Resampler."""
        ...

    def save(self, folder: Path, stem: str) -> None:
        """Write one file to the folder, for example `joint.spm` for the stem `joint`."""
        ...

    def __len__(self) -> int: ...


def load(folder: Path, stem: str, trusted: bool = False) -> Tokenizer:
    """Open a tokeniser that `save` wrote. Set `trusted` for files of our own run only: others can crash the library."""
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
    """The tokenisers of source and target, which are the same object for a joint vocabulary."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def load(cls, folder: Path, trusted: bool = False) -> Tokenizers:
        """Open the tokenisers of a model folder: `joint.*`, or `source.*` and `target.*`."""
        if any(folder.glob("joint.*")):
            joint = load(folder, "joint", trusted)
            return cls(joint, joint)
        return cls(load(folder, "source", trusted), load(folder, "target", trusted))

    def save(self, folder: Path) -> None:
        """Write one file, or two if source and target differ."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.source is self.target:
            self.source.save(folder, "joint")
        else:
            self.source.save(folder, "source")
            self.target.save(folder, "target")

    @property
    def fingerprint(self) -> str:
        """A hash of both; tokenisers with equal fingerprints behave alike."""
        return f"{self.source.fingerprint}-{self.target.fingerprint}"
