"""Subword regularisation for whole batches: replace encoded words by other segmentations of the same words."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int, Integer, UInt64

from headway.text.ragged import Growing, Ragged
from headway.text.segmenting import Segmenter, draw, mix
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import SPECIAL_PIECES

LONGEST_WORD = 16  # tokens; a longer word (such as a sentence without spaces) is split first
CHUNK = 4  # tokens in each part of a split word
LARGEST_TABLE = 1 << 25  # most tokens in the cache of segmentations before it is emptied


class Resampler:
    """Replace encoded sentences by the same text in other tokens.

    Each distinct word has `variants` segmentations, computed when first drawn: a pure function of seed, word
    and number, so neither the order of the calls nor the process matters. Each occurrence draws one of them.
    A word of more than 16 tokens, as in scripts without spaces, is split between tokens into parts of 4,
    at positions that change with every draw; the parts are treated as words.
    """

    def __init__(self, tokenizer: Tokenizer, alpha: float, variants: int = 16, seed: int = 0) -> None:
        size = len(tokenizer)
        self._special = np.zeros(size, dtype=bool)
        self._special[[*range(len(SPECIAL_PIECES)), *tokenizer.tags.values()]] = True
        opens = np.fromiter((tokenizer.starts_word(i) for i in range(size)), dtype=bool, count=size)
        self._opens = opens | self._special
        self._names = mix(np.arange(1, size + 1, dtype=np.uint64))
        self._table = Table(tokenizer.segmenter(alpha), variants, seed) if alpha else None

    def __call__(
        self, flat: Integer[np.ndarray, "p"], offsets: Int[np.ndarray, "m"], rng: np.random.Generator
    ) -> tuple[Integer[np.ndarray, "q"], Int[np.ndarray, "m"]]:
        """Return ragged sentences (row i is `flat[offsets[i] : offsets[i + 1]]`) with new tokens; tags stay."""
        if self._table is None or len(flat) == 0:
            return flat, offsets
        begins = self._part(self._words(flat, offsets), len(flat), rng)
        words = Ragged(flat, np.append(begins, len(flat)))
        drawn = self._table(words, self._hash(words), rng)
        ends = drawn.offsets[np.searchsorted(begins, offsets)]
        return drawn.flat.astype(flat.dtype), ends

    def _words(self, flat: Integer[np.ndarray, "p"], offsets: Int[np.ndarray, "m"]) -> Bool[np.ndarray, "p"]:
        """Return True where a word begins: at its space mark, at and after a special token, and at every sentence."""
        begins = self._opens[flat]
        begins[1:] |= self._special[flat[:-1]]
        begins[offsets[:-1][np.diff(offsets) > 0]] = True
        return begins

    def _part(self, begins: Bool[np.ndarray, "p"], count: int, rng: np.random.Generator) -> Int[np.ndarray, "w"]:
        """Return the start of each word; words that are too long are split at random positions."""
        places = np.flatnonzero(begins)
        lengths = np.diff(np.append(places, count))
        long = lengths > LONGEST_WORD
        if not long.any():
            return places
        within = np.arange(count) - np.repeat(places, lengths)
        shift = np.where(long, rng.integers(CHUNK, size=len(places)), 0)
        cut = (within + np.repeat(shift, lengths)) % CHUNK == 0
        return np.flatnonzero(begins | (cut & np.repeat(long, lengths)))

    def _hash(self, words: Ragged) -> UInt64[np.ndarray, "w"]:
        """Return a 64-bit hash of each word, from its tokens and their positions."""
        within = np.arange(len(words.flat)) - np.repeat(words.offsets[:-1], words.lengths)
        placed = self._names[words.flat] * (mix(within.astype(np.uint64) + np.uint64(1)) | np.uint64(1))
        return np.add.reduceat(placed, words.offsets[:-1])


class Table:
    """A cache of segmentations: word and number of the variant -> an entry in one long array of tokens."""

    def __init__(self, segment: Segmenter, variants: int, seed: int) -> None:
        self._segment, self._variants = segment, variants
        self._salts = draw(np.array([seed % 2**64], dtype=np.uint64), 0, variants)[0]
        self._clear()

    def _clear(self) -> None:
        self._hashes = np.empty(0, dtype=np.uint64)  # hashes of the words, sorted
        self._rows = np.empty(0, dtype=np.int64)  # row of each of these words in _entries
        self._entries = Growing(np.empty((0, self._variants), dtype=np.int32))  # [word, variant]; -1: not computed yet
        self._flat = Growing(np.empty(0, dtype=np.int32))  # tokens of all entries
        self._offsets = Growing(np.zeros(1, dtype=np.int64))

    def __call__(self, words: Ragged, hashes: UInt64[np.ndarray, "w"], rng: np.random.Generator) -> Ragged:
        """Return one segmentation of each word, drawn uniformly from its variants."""
        if len(self._flat.array) > LARGEST_TABLE:
            self._clear()
        number = rng.integers(self._variants, size=len(hashes))
        row = self._find(hashes)
        missing = np.flatnonzero(self._entries.array[row, number] < 0)
        if len(missing):
            _, first = np.unique(row[missing] * self._variants + number[missing], return_index=True)
            self._make(words, hashes, row, number, missing[first])
        return Ragged(self._flat.array, self._offsets.array).take(self._entries.array[row, number])

    def _find(self, hashes: UInt64[np.ndarray, "w"]) -> Int[np.ndarray, "w"]:
        """Return the row of each word; a new word gets a new row."""
        place = np.searchsorted(self._hashes, hashes)
        known = place < len(self._hashes)
        known[known] = self._hashes[place[known]] == hashes[known]
        if not known.all():
            new = np.unique(hashes[~known])
            at, count = np.searchsorted(self._hashes, new), len(self._rows)
            self._hashes = np.insert(self._hashes, at, new)
            self._rows = np.insert(self._rows, at, np.arange(count, count + len(new)))
            self._entries.append(np.full((len(new), self._variants), -1, dtype=np.int32))
            place = np.searchsorted(self._hashes, hashes)
        return self._rows[place]

    def _make(
        self,
        words: Ragged,
        hashes: UInt64[np.ndarray, "w"],
        row: Int[np.ndarray, "w"],
        number: Int[np.ndarray, "w"],
        which: Int[np.ndarray, "n"],
    ) -> None:
        """Compute and store the variants of the words at `which`, drawn here for the first time."""
        keys = mix(hashes[which] ^ self._salts[number[which]])
        cut = self._segment(words.take(which), keys)
        count = len(self._offsets.array) - 1
        self._entries.array[row[which], number[which]] = np.arange(count, count + len(which))
        self._offsets.append(cut.offsets[1:] + len(self._flat.array))
        self._flat.append(cut.flat)
