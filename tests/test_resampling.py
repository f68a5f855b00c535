"""Sampling draws as the papers say, keeps the text, and depends on nothing but the seed."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from headway.text import sampling, spm
from headway.text.dropout import Dropout
from headway.text.lattice import Lattice
from headway.text.ragged import Ragged, offsets_of
from headway.text.sampling import Resampler
from headway.text.segmenting import Alphabet, draw
from headway.text.sentencepieces import SentencePieces
from headway.text.tokenizer import Characters, Tokenizer, Words
from headway.text.vocabulary import EOS
from texts import BOTH, BPE, CHINESE, UNIGRAM, sentences


def ragged(rows: list[list[int]]) -> Ragged:
    flat = np.array([i for row in rows for i in row], dtype=np.int32)
    return Ragged(flat, offsets_of(np.array([len(row) for row in rows], dtype=np.int64)))


def rows_of(flat: np.ndarray, offsets: np.ndarray) -> list[list[int]]:
    return [flat[a:b].tolist() for a, b in itertools.pairwise(offsets)]


# ---------------------------------------------------------------- segmenters


def words_of(tokenizer: SentencePieces) -> tuple[list[str], Ragged]:
    found = sorted({word for text in sentences(300, seed=5) for word in text.split()})
    found += ["Xylophon", "a<br>b", "日本", "Ж"]
    return found, ragged(tokenizer.encode_many(found))


def keys(count: int, seed: int = 0) -> np.ndarray:
    return draw(np.array([seed], dtype=np.uint64), 0, count)[0]


def alphabet(tokenizer: SentencePieces) -> Alphabet:
    return Alphabet(spm.contents(tokenizer._model).pieces)


def test_dropout_of_nothing_is_the_segmentation_of_the_library() -> None:
    _, encoded = words_of(BPE)
    again = Dropout(alphabet(BPE), 0.0)(encoded, keys(len(encoded.lengths)))
    assert rows_of(*again) == rows_of(*encoded)


def test_a_sharp_lattice_gives_the_best_segmentation_of_the_library() -> None:
    _, encoded = words_of(UNIGRAM)
    again = Lattice(alphabet(UNIGRAM), 1000.0)(encoded, keys(len(encoded.lengths)))
    assert rows_of(*again) == rows_of(*encoded)


def scores_of(tokenizer: SentencePieces) -> dict[str, float]:
    return {piece.text: piece.score for piece in spm.contents(tokenizer._model).pieces if piece.kind == 1}


def slow_dropout(word: str, scores: dict[str, float], alpha: float, dice: random.Random) -> tuple[str, ...]:
    """Algorithm 1 of the paper, letter for letter."""
    pieces = list("▁" + word)
    while True:
        pairs = [i for i in range(len(pieces) - 1) if pieces[i] + pieces[i + 1] in scores]
        pairs = [i for i in pairs if dice.random() >= alpha]
        if not pairs:
            return tuple(pieces)
        best = max(pairs, key=lambda i: scores[pieces[i] + pieces[i + 1]])
        pieces[best : best + 2] = [pieces[best] + pieces[best + 1]]


def drawn_shares(tokenizer: SentencePieces, word: str, alpha: float, count: int) -> dict[tuple[str, ...], float]:
    many = ragged([tokenizer.encode(word)] * count)
    drawn = rows_of(*tokenizer.segmenter(alpha)(many, keys(count, seed=7)))
    shown = Counter(tuple(map(tokenizer.piece, row)) for row in drawn)
    return {pieces: times / count for pieces, times in shown.items()}


def distance(one: dict[tuple[str, ...], float], other: dict[tuple[str, ...], float]) -> float:
    return sum(abs(one.get(key, 0) - other.get(key, 0)) for key in one.keys() | other.keys()) / 2


def test_dropout_draws_like_the_slow_algorithm_of_the_paper() -> None:
    dice, count, scores = random.Random(0), 4000, scores_of(BPE)
    for word in ("grünlich", "zeverung"):
        slow = Counter(slow_dropout(word, scores, 0.3, dice) for _ in range(count))
        shares = {pieces: times / count for pieces, times in slow.items()}
        assert distance(drawn_shares(BPE, word, 0.3, 20_000), shares) < 0.08


def all_segmentations(text: str, scores: dict[str, float]) -> Iterator[tuple[str, ...]]:
    if not text:
        yield ()
    for end in range(1, len(text) + 1):
        if text[:end] in scores:
            yield from ((text[:end], *rest) for rest in all_segmentations(text[end:], scores))


def test_the_lattice_draws_in_proportion_to_probability() -> None:
    scores = scores_of(UNIGRAM)
    for word, alpha in (("gaberen", 0.2), ("miter", 0.6)):
        weights = {s: float(np.exp(alpha * sum(scores[p] for p in s))) for s in all_segmentations("▁" + word, scores)}
        total = sum(weights.values())
        wanted = {pieces: weight / total for pieces, weight in weights.items()}
        assert len(wanted) > 3
        assert distance(drawn_shares(UNIGRAM, word, alpha, 20_000), wanted) < 0.02


def test_the_lattice_cuts_as_finely_as_the_library() -> None:
    plain = sentencepiece.SentencePieceProcessor(model_proto=UNIGRAM._model)
    found, encoded = words_of(UNIGRAM)
    theirs = np.mean([len(plain.encode(w, enable_sampling=True, alpha=0.2, nbest_size=-1)) for w in found * 5])
    tiled = ragged(rows_of(*encoded) * 5)
    ours = UNIGRAM.segmenter(0.2)(tiled, keys(len(tiled.lengths))).lengths.mean()
    assert ours == pytest.approx(theirs, rel=0.03)


# ---------------------------------------------------------------- resampling

TEXTS = [*sentences(300, seed=11), "", "a<br>b  c", *CHINESE, "", "<s> ▁ x\n", "Ж" * 40, "grünver" * 60]


def encoded_corpus(tokenizer: Tokenizer) -> Ragged:
    tag = tokenizer.tags["de"]
    rows = tokenizer.encode_many(TEXTS)
    return ragged([[tag, *row, EOS] if i % 2 else row for i, row in enumerate(rows)])


@BOTH
@pytest.mark.parametrize("alpha", [0.1, 0.9])
def test_resampled_sentences_are_the_same_text_in_other_pieces(tokenizer: SentencePieces, alpha: float) -> None:
    given, resampler, rng = encoded_corpus(tokenizer), Resampler(tokenizer, alpha), np.random.default_rng(0)
    for _ in range(3):
        rows = rows_of(*resampler(given.flat, given.offsets, rng))
        assert [tokenizer.decode(row) for row in rows] == TEXTS
        assert rows != rows_of(*given)
        for i in range(1, len(rows), 2):
            assert rows[i][0] == tokenizer.tags["de"] and rows[i][-1] == EOS and rows[i].count(EOS) == 1


@BOTH
def test_no_sampling_is_the_identity(tokenizer: SentencePieces) -> None:
    given = encoded_corpus(tokenizer)
    flat, offsets = Resampler(tokenizer, 0.0)(given.flat, given.offsets, np.random.default_rng(0))
    assert np.array_equal(flat, given.flat) and np.array_equal(offsets, given.offsets)


@pytest.mark.parametrize("choice", [Characters(), Words()])
def test_symbols_are_never_cut(choice: Characters | Words) -> None:
    tokenizer = choice.learn(TEXTS, tags=("de",))
    given = encoded_corpus(tokenizer)
    flat, offsets = Resampler(tokenizer, 0.5)(given.flat, given.offsets, np.random.default_rng(0))
    assert np.array_equal(flat, given.flat) and np.array_equal(offsets, given.offsets)


@BOTH
def test_empty_corpora_and_narrow_numbers_pass(tokenizer: SentencePieces) -> None:
    resampler, rng = Resampler(tokenizer, 0.2), np.random.default_rng(0)
    nothing = np.zeros(3, dtype=np.int64)
    flat, offsets = resampler(np.empty(0, dtype=np.uint16), nothing, rng)
    assert len(flat) == 0 and np.array_equal(offsets, nothing)
    given = encoded_corpus(tokenizer)
    flat, offsets = resampler(given.flat.astype(np.uint16), given.offsets, rng)
    assert flat.dtype == np.uint16 and offsets.dtype == np.int64


@BOTH
def test_what_was_drawn_before_does_not_matter(tokenizer: SentencePieces, monkeypatch: pytest.MonkeyPatch) -> None:
    given = encoded_corpus(tokenizer)

    def draws(resampler: Resampler) -> list[list[int]]:
        return rows_of(*resampler(given.flat, given.offsets, np.random.default_rng(3)))

    fresh = draws(Resampler(tokenizer, 0.2))
    warm = Resampler(tokenizer, 0.2)
    for seed in range(3):
        part = ragged(rows_of(*given)[seed * 50 : seed * 50 + 80][::-1])
        warm(part.flat, part.offsets, np.random.default_rng(seed))
    assert draws(warm) == fresh
    monkeypatch.setattr(sampling, "LARGEST_TABLE", 0)  # forgets everything before each call
    assert draws(warm) == fresh
    assert draws(Resampler(tokenizer, 0.2, seed=1)) != fresh


def test_another_process_draws_the_same(tmp_path: Path) -> None:
    BPE.save(tmp_path, "joint")
    code = """
import sys, numpy as np
from pathlib import Path
from headway.text.sampling import Resampler
from headway.text.tokenizer import load
tokenizer = load(Path(sys.argv[1]), "joint", trusted=True)
ids = np.array(tokenizer.encode("Wasserig tanzen die Fenster"), dtype=np.int32)
flat, _ = Resampler(tokenizer, 0.5, seed=4)(ids, np.array([0, len(ids)]), np.random.default_rng(1))
print(flat.tolist())
"""
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    ids = np.array(BPE.encode("Wasserig tanzen die Fenster"), dtype=np.int32)
    flat, _ = Resampler(BPE, 0.5, seed=4)(ids, np.array([0, len(ids)]), np.random.default_rng(1))
    assert json.loads(out.stdout) == flat.tolist()


@BOTH
def test_a_word_is_drawn_in_several_ways_and_mostly_in_its_own(tokenizer: SentencePieces) -> None:
    word = tokenizer.encode("grünlichung")
    many = ragged([word] * 8000)
    alpha = {id(BPE): 0.1, id(UNIGRAM): 0.9}[id(tokenizer)]
    rows = rows_of(*Resampler(tokenizer, alpha)(many.flat, many.offsets, np.random.default_rng(0)))
    shares = Counter(map(tuple, rows))
    assert 2 <= len(shares) <= 16 and tuple(word) in shares
    # each of the 16 variants is as likely as any other, and the same one may have been drawn several times
    assert all(abs(times / 500 - round(times / 500)) < 0.3 for times in shares.values())


@BOTH
def test_sentences_without_spaces_vary_everywhere(tokenizer: SentencePieces) -> None:
    text = "".join(sentences(1, seed=20)[0].split()) * 6
    ids = np.array(tokenizer.encode(text), dtype=np.int32)
    assert len(ids) > sampling.LONGEST_WORD
    resampler, rng, ends = Resampler(tokenizer, 0.3), np.random.default_rng(0), Counter[int]()
    for _ in range(60):
        flat, _ = resampler(ids, np.array([0, len(ids)]), rng)
        assert tokenizer.decode(flat.tolist()) == text
        ends.update(np.cumsum([len(tokenizer.piece(i)) for i in flat.tolist()]).tolist())
    own = np.cumsum([len(tokenizer.piece(i)) for i in ids.tolist()]).tolist()
    assert len(ends) > len(own)
    # a piece may reach over the model's own cut; this unigram model has no piece that could
    assert tokenizer is UNIGRAM or any(ends[end] < 60 for end in own[:-1])
