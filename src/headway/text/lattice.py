"""Subword regularisation (Kudo 2018): draw a segmentation in proportion to its probability to the power alpha.

Ours rather than sentencepiece's sampling: it segments a whole batch with NumPy and is a pure function of its keys.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Integer, UInt64

from headway.text.ragged import Ragged
from headway.text.segmenting import Alphabet, Pairs, by_length, draw


class Lattice:
    """A segmenter that sums the probabilities of all segmentations forwards and draws one of them backwards."""

    def __init__(self, alphabet: Alphabet, alpha: float) -> None:
        self._alphabet = alphabet
        self._longest = max((len(letters) for letters in alphabet.composed.values()), default=1)
        self._scores = np.append(alpha * alphabet.scores, -np.inf)  # index -1, which means "no subword", finds the last
        self._steps, self._complete = _tree(alphabet)

    def __call__(self, words: Ragged, keys: UInt64[np.ndarray, "n"]) -> Ragged:
        return by_length(self._alphabet.spell(words), keys, self._cut)

    def _cut(self, letters: Integer[np.ndarray, "m w"], keys: UInt64[np.ndarray, "m"]) -> Int[np.ndarray, "m w"]:
        pieces = self._pieces(letters)
        return self._draw(pieces, self._scores[pieces], keys)

    def _pieces(self, letters: Integer[np.ndarray, "m w"]) -> Int[np.ndarray, "m w l"]:
        """Return the id of the subword that starts at each letter, for every length in letters, or -1."""
        count, width = letters.shape
        longest = min(self._longest, width)
        pieces = np.full((count, width, longest), -1, dtype=np.int32)
        pieces[:, :, 0] = letters
        node = np.full((count, width), 0)
        for length in range(1, longest + 1):
            here = slice(0, width - length + 1)
            node = self._steps.find(node[:, here], letters[:, length - 1 :])
            if length > 1:
                pieces[:, here, length - 1] = self._complete[node]
        return pieces

    def _draw(
        self,
        pieces: Integer[np.ndarray, "m w l"],
        scores: Float[np.ndarray, "m w l"],
        keys: UInt64[np.ndarray, "m"],
    ) -> Int[np.ndarray, "m w"]:
        """Draw subwords from the end to the beginning, each by its share of the weight of all paths that end there."""
        count, width, longest = pieces.shape
        paths = self._forward(scores)
        out = np.full((count, width), -1, dtype=np.int32)
        rows: Int[np.ndarray, "r"] = np.arange(int(count))
        end: Int[np.ndarray, "r"] = np.full(int(count), int(width))
        lengths: Int[np.ndarray, "l"] = np.arange(1, int(longest) + 1)
        for place in range(width - 1, -1, -1):
            start: Int[np.ndarray, "r l"] = end[:, None] - lengths
            inside = np.maximum(start, 0)
            weight = paths[rows[:, None], inside] + scores[rows[:, None], inside, lengths - 1]
            noise = _gumbel(draw(keys[rows], end, longest))
            length: Int[np.ndarray, "r"] = np.where(start >= 0, weight + noise, -np.inf).argmax(axis=1) + 1
            end = end - length
            out[rows, place] = pieces[rows, end, length - 1]
            rows, end = rows[end > 0], end[end > 0]
        return out

    @staticmethod
    def _forward(scores: Float[np.ndarray, "m w l"]) -> Float[np.ndarray, "m v"]:
        """Return the log of the summed weight of all paths from the beginning to each position."""
        count, width, longest = scores.shape
        paths = np.zeros((count, width + 1))
        for end in range(1, width + 1):
            lengths: Int[np.ndarray, "l"] = np.arange(1, min(int(longest), end) + 1)
            paths[:, end] = np.logaddexp.reduce(paths[:, end - lengths] + scores[:, end - lengths, lengths - 1], axis=1)
        return paths


def _gumbel(bits: UInt64[np.ndarray, "m l"]) -> Float[np.ndarray, "m l"]:
    """Return Gumbel noise: the argmax of log weights plus this noise is a draw in proportion to the weights."""
    uniform = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return -np.log(-np.log(uniform))


def _tree(alphabet: Alphabet) -> tuple[Pairs, Int[np.ndarray, "k"]]:
    """Return a trie of all subwords: (node, letter) -> node, and the subword that ends at each node or -1."""
    steps: dict[tuple[int, int], int] = {}
    complete = [-1]
    for piece, letters in alphabet.composed.items():
        node = 0
        for letter in letters:
            node = steps.setdefault((node, letter), len(complete))
            complete += [-1] * (node == len(complete))
        complete[node] = piece
    return Pairs(steps, len(alphabet)), np.array([*complete, -1], dtype=np.int32)
