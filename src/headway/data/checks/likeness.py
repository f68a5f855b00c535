"""A score of how likely two lines are translations of each other, learnt from the corpus itself.

Three features are used: lengths, punctuation (digits, question marks, brackets and others) and words, by a small
dictionary of words that often occur in the same pair. Each gives log odds: positive values indicate a pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8, UInt64

from headway.data.checks.blocks import Side
from headway.data.checks.kinds import KIND, SIGNS

BUCKETS = 1 << 16  # words are hashed to 16 bits
BITS = 256  # bits of the Bloom filter of a line's words
MOST_OVERLAP = 8  # larger numbers of common words count as this
MOST_SIGNS = 3  # classes of the number of a punctuation mark: 0, 1, more
MOST_CLASSES = 8  # most classes of length
SHRINKING = 30.0  # pseudo-counts that shrink estimates from few pairs towards 0
MOST_PAIRS = 500_000  # pairs of words to learn a dictionary from
FAR = 997  # offset in lines of pairs that serve as negative examples
FIRMEST = 4.0  # largest absolute score of one line, in nats


@dataclass(frozen=True)
class Traits:
    """The features of some lines of one side, kept until they are scored."""

    lengths: Int[np.ndarray, " n"]
    signs: UInt8[np.ndarray, "n signs"]
    lines: Int[np.ndarray, " w"]  # the line of each word
    words: Int[np.ndarray, " w"]  # the hash of each word

    def __len__(self) -> int:
        return len(self.lengths)

    def after(self, start: int) -> Traits:
        """Return the features of the lines from index `start` on."""
        later = self.lines >= start
        return Traits(self.lengths[start:], self.signs[start:], self.lines[later] - start, self.words[later])


def traits(side: Side) -> Traits:
    signs = side.kinds[:, [KIND[name] for name in SIGNS]]
    few = np.minimum(signs, MOST_SIGNS - 1).astype(np.uint8)
    return Traits(side.lengths, few, side.words.lines, (side.words.numbers >> np.uint64(48)).astype(np.int64))


def join(parts: list[Traits]) -> Traits:
    before = np.cumsum([0, *(len(part) for part in parts[:-1])])
    return Traits(
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.signs for part in parts]),
        np.concatenate([part.lines + start for part, start in zip(parts, before, strict=True)]),
        np.concatenate([part.words for part in parts]),
    )


@dataclass(frozen=True)
class Marks:
    """Lines prepared for scoring: classes of lengths and punctuation, and a Bloom filter of words."""

    classes: UInt8[np.ndarray, "n f"]
    words: UInt64[np.ndarray, "n 4"]

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, rows: slice | Int[np.ndarray, " m"] | Bool[np.ndarray, " n"]) -> Marks:
        return Marks(self.classes[rows], self.words[rows])


class Likeness:
    """A translation score of any two lines, learnt from source lines i paired with target lines `partner[i]`."""

    def __init__(self, source: Traits, target: Traits, partner: Int[np.ndarray, " n"]) -> None:
        self.bounds = [_bounds(side.lengths) for side in (source, target)]
        odd = np.arange(len(source)) % 2 == 1  # even lines train the dictionary, odd lines its reliability
        self.dictionary = _learn_words(source, target, np.where(odd, -1, partner))
        ours, theirs = self.mark_source(source), self.mark_target(target)
        right = ours[odd], theirs[partner[odd]]
        wrong = ours[odd], theirs[(partner[odd] + FAR) % len(target)]
        self.tables = [_odds_table(*(side.classes[:, f] for side in right)) for f in range(ours.classes.shape[1])]
        self.overlap = _overlap_table(right, wrong)
        self.evidence = float(self.score(*right).mean())

    def mark_source(self, side: Traits) -> Marks:
        meant = self.dictionary[side.words]
        known = meant >= 0
        return Marks(_classes(side, self.bounds[0]), _word_set(len(side), side.lines[known], meant[known]))

    def mark_target(self, side: Traits) -> Marks:
        return Marks(_classes(side, self.bounds[1]), _word_set(len(side), side.lines, side.words))

    def score(self, source: Marks, target: Marks) -> Float[np.ndarray, " n"]:
        total = self.overlap[_overlap(source, target)]
        for feature, table in enumerate(self.tables):
            total = total + table[source.classes[:, feature], target.classes[:, feature]]
        return np.clip(total, -FIRMEST, FIRMEST)


def _bounds(lengths: Int[np.ndarray, " n"]) -> Float[np.ndarray, " q"]:
    """Return boundaries that divide lengths into classes of equal size, fewer classes for few lines."""
    classes = MOST_CLASSES if len(lengths) >= 2000 else 5 if len(lengths) >= 300 else 3
    return np.quantile(lengths, np.arange(1, classes) / classes)


def _classes(side: Traits, bounds: Float[np.ndarray, " q"]) -> UInt8[np.ndarray, "n f"]:
    return np.column_stack((np.searchsorted(bounds, side.lengths).astype(np.uint8), side.signs))


def _word_set(count: int, lines: Int[np.ndarray, " w"], words: Int[np.ndarray, " w"]) -> UInt64[np.ndarray, "n 4"]:
    bits = np.zeros((count, BITS), bool)
    bits[lines, words % BITS] = True
    return np.packbits(bits, axis=1).view(np.uint64)


def _odds_table(left: UInt8[np.ndarray, " n"], right: UInt8[np.ndarray, " n"]) -> Float[np.ndarray, "a b"]:
    """Return log p(a, b) / (p(a) p(b)) of two features, smoothed."""
    size = MOST_CLASSES
    together = np.bincount(left.astype(np.int64) * size + right, minlength=size * size).reshape(size, size)
    alone = np.outer(together.sum(1), together.sum(0)) / len(left)
    return np.log((together + SHRINKING * alone / len(left) + 1e-3) / (alone * (1 + SHRINKING / len(left)) + 1e-3))


def _overlap(source: Marks, target: Marks) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Return how many translated words are expected, and how many of them occur."""
    expected = np.bitwise_count(source.words).sum(1, dtype=np.int64)
    there = np.bitwise_count(source.words & target.words).sum(1, dtype=np.int64)
    return np.minimum(expected, MOST_OVERLAP), np.minimum(there, MOST_OVERLAP)


def _overlap_table(right: tuple[Marks, Marks], wrong: tuple[Marks, Marks]) -> Float[np.ndarray, "9 9"]:
    size = MOST_OVERLAP + 1
    seen = []
    for pair in (right, wrong):
        expected, there = _overlap(*pair)
        seen.append(np.bincount(expected * size + there, minlength=size * size).reshape(size, size) + 0.5)
    together, chance = (table / table.sum(1, keepdims=True) for table in seen)
    trust = np.minimum(1.0, seen[0].sum(1, keepdims=True) / (2 * SHRINKING))
    return trust * np.log(together / chance)


# ---------------------------------------------------------------- the dictionary


def _learn_words(source: Traits, target: Traits, partner: Int[np.ndarray, " n"]) -> Int[np.ndarray, " buckets"]:
    """Return for each source word the target word with the highest Dice coefficient, or -1."""
    partner = _fewer(source, target, partner)
    wanted = np.zeros(len(target), bool)
    wanted[partner[partner >= 0]] = True
    line, chosen = partner[source.lines], wanted[target.lines]
    left = _distinct(line[line >= 0], source.words[line >= 0])
    right = _distinct(target.lines[chosen], target.words[chosen])
    ours, theirs = _cross(left, right)
    pairs, together = np.unique(ours * BUCKETS + theirs, return_counts=True)
    pairs, together = pairs[together >= 3], together[together >= 3]
    ours, theirs = pairs // BUCKETS, pairs % BUCKETS
    alone = np.bincount(left[1], minlength=BUCKETS)[ours] + np.bincount(right[1], minlength=BUCKETS)[theirs]
    dice = 2 * together / alone
    best = np.full(BUCKETS, -1)
    order = np.argsort(dice, kind="stable")
    order = order[dice[order] > 0.1]
    best[ours[order]] = theirs[order]  # the last assignment, with the highest coefficient, wins
    return best


def _distinct(lines: Int[np.ndarray, " w"], words: Int[np.ndarray, " w"]) -> Int[np.ndarray, "2 u"]:
    keys = np.unique(lines * BUCKETS + words)
    return np.stack((keys // BUCKETS, keys % BUCKETS))


def _fewer(source: Traits, target: Traits, partner: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return the partners with lines dropped evenly (as -1), so that about MOST_PAIRS pairs of words remain."""
    ours, theirs = (np.bincount(side.lines, minlength=len(side)) for side in (source, target))
    pairs = int((ours * theirs[partner])[partner >= 0].sum())
    every = -(-pairs // MOST_PAIRS)
    return np.where(np.arange(len(partner)) // 64 % max(every, 1) == 0, partner, -1)


def _cross(left: Int[np.ndarray, "2 a"], right: Int[np.ndarray, "2 b"]) -> Int[np.ndarray, "2 p"]:
    """Return every source word with every target word of the same line."""
    first = np.searchsorted(right[0], left[0])
    count = np.searchsorted(right[0], left[0], side="right") - first
    start = np.repeat(first - np.concatenate(([0], np.cumsum(count)[:-1])), count)
    return np.stack((np.repeat(left[1], count), right[1][start + np.arange(count.sum())]))
