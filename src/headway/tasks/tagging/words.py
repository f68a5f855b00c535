"""Words as a model reads them: in pieces, and spelled in letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.data.padding import pad_rows
from headway.text.characters import Characters
from headway.text.tokenizer import Text, Tokenizer, load
from headway.text.vocabulary import BOS, EOS, PAD, UNK

STEM, LETTERS = "joint", "letters"


@dataclass(frozen=True)
class Pieces:
    """The tokeniser of a text, and one for the letters of its words where the model spells them."""

    text: Tokenizer
    letters: Tokenizer | None = None

    @classmethod
    def load(cls, folder: Path, spelled: bool) -> Pieces:
        return cls(load(folder, STEM), load(folder, LETTERS) if spelled else None)

    def save(self, folder: Path) -> None:
        self.text.save(folder, STEM)
        if self.letters is not None:
            self.letters.save(folder, LETTERS)

    @property
    def sizes(self) -> tuple[int, int]:
        """Of the text's vocabulary and of the letters'."""
        return len(self.text), len(self.letters) if self.letters else 0

    @property
    def fingerprint(self) -> str:
        return f"{self.text.fingerprint}-{self.letters.fingerprint if self.letters else ''}"


class Stretch(NamedTuple):
    """Some words of a sentence that fit into the model together."""

    sentence: int
    start: int  # number of its first word
    words: tuple[str, ...]
    pieces: list[int]
    first: list[int]  # where each word's first piece stands

    @property
    def place(self) -> slice:
        """Where its words stand in the sentence."""
        return slice(self.start, self.start + len(self.words))

    @property
    def here(self) -> slice:
        """Where they stand in a padded row."""
        return slice(len(self.words))


class WordReader:
    """Words to pieces, word by word, so that every label has its place."""

    def __init__(self, pieces: Pieces, gap: list[int], longest: int, letters: int = 0) -> None:
        self.pieces, self.gap, self.longest, self.most_letters = pieces, gap, longest, letters
        self._known: dict[str, list[int]] = {}

    def ids(self, word: str) -> list[int]:
        """Never empty: what the tokeniser cannot see is unknown."""
        found = self._known.get(word)
        if found is None:
            found = self._known[word] = self.pieces.text.encode(word)[: self.longest] or [UNK]
        return found

    def spelled(self, word: str) -> list[int]:
        assert self.pieces.letters is not None
        return self.pieces.letters.encode(word)[: self.most_letters] or [UNK]

    def stretches(self, sentences: Iterable[Sequence[str]]) -> list[Stretch]:
        """Sentences as they are; those that are too long are cut between two words."""
        return [part for number, words in enumerate(sentences) for part in self._cut(number, words)]

    def _cut(self, number: int, words: Sequence[str]) -> list[Stretch]:
        parts: list[Stretch] = []
        start, pieces, first = 0, list[int](), list[int]()
        for place, word in enumerate(words):
            ids = self.ids(word)
            gap = self.gap if pieces else []
            if pieces and len(pieces) + len(gap) + len(ids) > self.longest:
                parts.append(Stretch(number, start, tuple(words[start:place]), pieces, first))
                start, pieces, first, gap = place, [], [], []
            first.append(len(pieces) + len(gap))
            pieces += [*gap, *ids]
        return [*parts, Stretch(number, start, tuple(words[start:]), pieces, first)] if pieces else parts

    def tensors(
        self, stretches: Sequence[Stretch], device: torch.device
    ) -> tuple[Int[Tensor, "b t"], Int[Tensor, "b w"], Int[Tensor, "b w c"] | None]:
        pieces = pad_rows([one.pieces for one in stretches], device)
        first = pad_rows([[place + 1 for place in one.first] for one in stretches], device) - 1
        return pieces, first, self.letters([one.words for one in stretches], first.size(1), device)

    def letters(
        self, sentences: Sequence[Sequence[str]], width: int, device: torch.device
    ) -> Int[Tensor, "b w c"] | None:
        if self.pieces.letters is None:
            return None
        rows = [row for words in sentences for row in self._letter_rows(words, width)]
        return pad_rows(rows, device).unflatten(0, (len(sentences), width))

    def _letter_rows(self, words: Sequence[str], width: int) -> list[list[int]]:
        """Padding has one letter too: a mean over nothing is no number."""
        return [*map(self.spelled, words), *[[EOS]] * (width - len(words))]


def reader_for(pieces: Pieces, kind: Text, spaced: bool, longest: int, letters: int) -> WordReader:
    """Between the characters of two words stands a space, where the language writes one."""
    gap = pieces.text.encode(" ") if spaced and isinstance(kind, Characters) else []
    return WordReader(pieces, gap, longest, letters)


def hide(pieces: Int[Tensor, "b t"], share: float) -> Int[Tensor, "b t"]:
    """Some pieces become unknown; the class token stays."""
    return pieces if share == 0 else unknown(pieces, torch.rand(pieces.shape, device=pieces.device) < share)


def unknown(pieces: Int[Tensor, "b t"], chosen: Bool[Tensor, "b t"]) -> Int[Tensor, "b t"]:
    return pieces.masked_fill(chosen & (pieces != PAD) & (pieces != BOS), UNK)
