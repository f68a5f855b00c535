"""BPE-dropout (Provilkov et al. 2020): build words from letters and skip merges at random.

Ours rather than sentencepiece's sampling: it segments a whole batch with NumPy and is a pure function of its keys.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int, Integer, UInt64

from headway.text.ragged import Ragged
from headway.text.segmenting import Alphabet, Pairs, by_length, draw

_NEVER = np.iinfo(np.int32).max


class Dropout:
    """A segmenter that skips every possible merge with probability `alpha`, drawn again at each step."""

    def __init__(self, alphabet: Alphabet, alpha: float) -> None:
        self._alphabet = alphabet
        self._merges = Pairs(_merges(alphabet), len(alphabet))
        order = np.argsort(np.argsort(-alphabet.scores, kind="stable"))  # BPE scores are negated ranks
        self._ranks = np.append(order, _NEVER).astype(np.int32)  # index -1, which means "no merge", finds the last
        self._threshold = np.uint64(min(alpha, 1 - 2**-53) * 2**64)

    def __call__(self, words: Ragged, keys: UInt64[np.ndarray, "n"]) -> Ragged:
        return by_length(self._alphabet.spell(words), keys, self._cut)

    def _cut(self, letters: Integer[np.ndarray, "m w"], keys: UInt64[np.ndarray, "m"]) -> Int[np.ndarray, "m w"]:
        """Return the subwords of words of equal length, one word a row, padded with -1.

        Each step makes one merge in every row, so all rows keep the same length. A row without a merge is finished.
        """
        out = np.full(letters.shape, -1, dtype=np.int32)
        pieces = letters.astype(np.int32)
        rows: Int[np.ndarray, "r"] = np.arange(len(letters))
        joined = self._merges.find(pieces[:, :-1], pieces[:, 1:])
        while pieces.shape[1] > 1:
            best, going = self._choose(joined, keys[rows])
            done = ~going
            out[rows[done], : pieces.shape[1]] = pieces[done]
            rows = rows[going]
            pieces, joined = self._merge(pieces[going], joined[going], best[going])
        out[rows, : pieces.shape[1]] = pieces
        return out

    def _choose(
        self, joined: Integer[np.ndarray, "m w"], keys: UInt64[np.ndarray, "m"]
    ) -> tuple[Int[np.ndarray, "m"], np.ndarray]:
        """Return the index of each row's best merge that was not skipped, and whether there is such a merge."""
        width = joined.shape[1]  # it shrinks with every step, so it serves as the number of the step
        ranks = np.where(draw(keys, width, width) < self._threshold, _NEVER, self._ranks[joined])
        best = ranks.argmin(axis=1)
        return best, ranks[np.arange(len(ranks)), best] < _NEVER

    def _merge(
        self, pieces: Integer[np.ndarray, "m w"], joined: Integer[np.ndarray, "m v"], best: Int[np.ndarray, "m"]
    ) -> tuple[Int[np.ndarray, "m x"], Int[np.ndarray, "m y"]]:
        """Replace two subwords of each row by their merge, and look up the two pairs that the merge now forms."""
        count, width = pieces.shape
        row: Int[np.ndarray, "m"] = np.arange(int(count))
        merged = joined[row, best]
        pieces = pieces[np.arange(width) != best[:, None] + 1].reshape(count, width - 1)
        joined = joined[np.arange(width - 1) != best[:, None]].reshape(count, width - 2)
        pieces[row, best] = merged
        for left in (best - 1, best):
            inside = (left >= 0) & (left < width - 2)
            at: Int[np.ndarray, "i"] = row[inside]
            left = left[inside]
            joined[at, left] = self._merges.find(pieces[at, left], pieces[at, left + 1])
        return pieces, joined


def _merges(alphabet: Alphabet) -> dict[tuple[int, int], int]:
    """Return (left id, right id) -> id of the merge, for all pairs of subwords whose concatenation is a subword."""
    ids, texts = alphabet.ids, {i: text for text, i in alphabet.ids.items()}
    found: dict[tuple[int, int], int] = {}
    for whole in alphabet.composed:
        text = texts[whole]
        for cut in range(1, len(text)):
            left, right = ids.get(text[:cut]), ids.get(text[cut:])
            if left is not None and right is not None:
                found[left, right] = whole
    return found
