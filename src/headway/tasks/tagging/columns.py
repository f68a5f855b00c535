"""Tagged sentences as numbers, and as padded tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor

from headway.data.bucketing import Lengths, Shape
from headway.data.rows import pack, pad, take
from headway.tasks.tagging.corpus import Annotated
from headway.tasks.tagging.words import WordReader
from headway.text.ragged import Ragged
from headway.text.vocabulary import EOS, PAD


@dataclass(frozen=True)
class Columns:
    """The training sentences as numbers: rows of pieces, of the words' places, of labels, of spellings."""

    pieces: Ragged
    first: Ragged  # from 1 on: padding is 0
    labels: Ragged  # from 1 on
    spelled: Ragged  # numbers of words, from 1 on
    letters: Integer[np.ndarray, "n c"] | None  # of every word that occurs; row 0 stands for padding
    places: list[str]  # file and line of each row
    step: int  # letters of a batch are padded to a multiple of it

    @classmethod
    def of(cls, found: Annotated, reader: WordReader, step: int) -> Columns:
        train, labelling = found.train, found.labelling
        cuts = reader.stretches([one.words for one in train])
        parts = [train[cut.sentence].labels[cut.start : cut.start + len(cut.words)] for cut in cuts]
        numbers: dict[str, int] = {}
        spelled = [[numbers.setdefault(word, len(numbers) + 1) for word in cut.words] for cut in cuts]
        return cls(
            pack([cut.pieces for cut in cuts], "int32"),
            pack([[place + 1 for place in cut.first] for cut in cuts], "int32"),
            pack([labelling.ids(labelling.scheme.repair(part)) for part in parts], "int32"),
            pack(spelled, "int32"),
            letter_table(list(numbers), reader) if reader.pieces.letters else None,
            [f"{train[cut.sentence].path}:{train[cut.sentence].line + cut.start}" for cut in cuts],
            step,
        )

    @property
    def words(self) -> np.ndarray:
        return self.labels.lengths

    @property
    def lengths(self) -> Lengths:
        return Lengths(self.pieces.lengths, self.labels.lengths)

    def fill(self, rows: np.ndarray, shape: Shape) -> tuple[Tensor, ...]:
        """Padded tensors; dummy rows have one piece, so that attention sees something."""
        pieces = pad(take(self.pieces, rows), shape.rows, shape.source)
        pieces[len(rows) :, 0] = EOS
        first = pad(take(self.first, rows), shape.rows, shape.target) - 1
        labels = pad(take(self.labels, rows), shape.rows, shape.target)
        tensors = (pieces, first, labels)
        if self.letters is not None:
            letters = self.letters[pad(take(self.spelled, rows), shape.rows, shape.target)]
            tensors = (*tensors, np.ascontiguousarray(letters[..., : longest_row(letters, self.step)]))
        return tuple(map(torch.from_numpy, tensors))


def letter_table(words: Sequence[str], reader: WordReader) -> np.ndarray:
    rows = [[EOS], *(reader.spelled(word) for word in words)]
    return pad(pack(rows, "int64"), len(rows), max(map(len, rows)))


def longest_row(letters: np.ndarray, step: int) -> int:
    """Rounded up, so that batches have few different shapes."""
    return min(letters.shape[-1], -(-int((letters != PAD).sum(axis=-1).max()) // step) * step)
