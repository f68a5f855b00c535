"""Text goes in and comes out again, and nothing in it can act as a special piece."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from headway import config
from headway.errors import UsageError
from headway.text import subword, words
from headway.text.sentencepieces import SentencePieces
from headway.text.tokenizer import Characters, Subword, Text, Tokenizer, Words
from headway.text.vocabulary import EOS, PAD, UNK
from texts import BOTH, BPE, CHINESE, NASTY, UNIGRAM, learn, sentences

# ---------------------------------------------------------------- text in, text out

any_text = st.text() | st.lists(st.sampled_from(NASTY)).map("".join)


@BOTH
@settings(deadline=None, max_examples=150)
@given(text=any_text)
def test_any_text_comes_back_and_nothing_in_it_is_special(tokenizer: SentencePieces, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids) & {0, 1, 2, 3, *tokenizer.tags.values()}


@BOTH
def test_names_of_special_pieces_are_only_text(tokenizer: SentencePieces) -> None:
    everything = "x".join(NASTY)
    assert tokenizer.decode(tokenizer.encode(everything)) == everything
    assert len(tokenizer.encode("<s>")) > 1
    assert tokenizer.encode("<0x41>") != tokenizer.encode("A")


@BOTH
@pytest.mark.parametrize("text", CHINESE)
def test_scripts_without_spaces_are_left_as_they_are(tokenizer: SentencePieces, text: str) -> None:
    learnt = Subword(size=420).learn([*CHINESE, *sentences(20)])
    for each in (tokenizer, learnt):
        assert each.decode(each.encode(text)) == text


@BOTH
def test_half_a_surrogate_pair_becomes_the_replacement_character(tokenizer: SentencePieces) -> None:
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"
    assert tokenizer.encode_many(["", "\udfff"])[0] == []


@BOTH
def test_many_texts_are_encoded_as_one_by_one(tokenizer: SentencePieces) -> None:
    texts = [*sentences(50, seed=1), *NASTY, "", "a▁b", *CHINESE]
    assert tokenizer.encode_many(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_many([]) == []


@BOTH
def test_the_saved_file_means_the_same_to_sentencepiece_itself(tokenizer: SentencePieces, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, "joint")
    plain = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "joint.spm"))
    texts = [*sentences(50, seed=2), *CHINESE, "  two  spaces "]
    assert plain.encode(texts) == tokenizer.encode_many(texts)
    assert plain.encode(texts, out_type=str) == [tokenizer.pieces(text) for text in texts]


@BOTH
def test_special_pieces_and_tags_are_silent_and_unknown_is_seen(tokenizer: SentencePieces) -> None:
    ids = tokenizer.encode("Haus am Licht")
    framed = [tokenizer.tags["de"], 2, *ids, EOS, PAD, PAD]
    assert tokenizer.decode(framed) == "Haus am Licht"
    assert tokenizer.decode(np.array(framed)) == "Haus am Licht"
    assert tokenizer.decode([*ids, UNK]) == "Haus am Licht⁇"
    assert tokenizer.decode([]) == ""


@BOTH
def test_word_starts_count_the_words(tokenizer: SentencePieces) -> None:
    for text in sentences(30, seed=3):
        assert sum(map(tokenizer.starts_word, tokenizer.encode(text))) == len(text.split())


@BOTH
def test_tags_and_given_pieces(tokenizer: SentencePieces) -> None:
    assert [tokenizer.piece(i) for i in tokenizer.tags.values()] == ["<2de>", "<2en>"]
    assert tokenizer.pieces("Haus<br>baum").count("<br>") == 1
    assert isinstance(tokenizer, Tokenizer)


def test_without_bytes_a_strange_character_is_unknown() -> None:
    tokenizer = Subword(byte_fallback=False, size=80).learn(sentences(100))
    assert UNK in tokenizer.encode("bater Ж") and UNK in tokenizer.encode("▁")
    assert tokenizer.decode(tokenizer.encode("bater")) == "bater"
    assert tokenizer.decode(tokenizer.encode("Жater")) == "⁇ater"


def test_lowercase_lowers_every_character_and_nothing_else() -> None:
    choice = Subword(lowercase=True, pieces=("<BR>",))
    tokenizer = choice.learn(sentences(100))
    for text in ["GRÜNE Straße", "ΣΑΣ", "İX  Ⅷ \n", *CHINESE]:
        assert tokenizer.decode(tokenizer.encode(text)) == "".join(letter.lower() for letter in text)
    assert "<BR>" in tokenizer.pieces("A<BR>B")
    assert tokenizer.fingerprint == choice.learn(sentences(100)).fingerprint  # no path of ours inside


# ---------------------------------------------------------------- learning


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@settings(deadline=None, max_examples=20)
@given(texts=st.lists(any_text.filter(lambda text: text.strip()), min_size=1, max_size=4))
def test_the_tiniest_text_is_enough(algorithm: str, texts: list[str]) -> None:
    tokenizer = Subword(algorithm=algorithm, size=30_000).learn(texts, tags=("fr",))  # type: ignore[arg-type]
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_many(texts)] == texts
    assert len(tokenizer) < 30_000


@pytest.mark.parametrize("choice", [Subword(), Characters(), Words()])
@pytest.mark.parametrize("texts", [[], [""], ["", "  ", "\n"]])
def test_no_text_is_an_error(choice: Text, texts: list[str]) -> None:
    if isinstance(choice, Characters) and any(texts):
        return  # a space is a character
    with pytest.raises(UsageError, match="no text to learn"):
        choice.learn(texts)


def test_a_size_too_small_says_how_many_are_needed() -> None:
    with pytest.raises(UsageError, match=r"size = 100 is too small: .* at least \d+$"):
        Subword(size=100).learn(sentences(10))


def test_learning_is_repeatable_and_sizes_are_kept() -> None:
    assert learn("bpe").fingerprint == BPE.fingerprint
    assert len(BPE) == 420
    assert BPE.fingerprint != UNIGRAM.fingerprint


@pytest.mark.parametrize(("pairs", "pieces"), [(30_000, 10_000), (165_000, 16_000), (3_000_000, 32_000)])
def test_the_size_follows_the_amount_of_text(pairs: int, pieces: int) -> None:
    assert subword.choose_size(2 * pairs, joint=True) == pytest.approx(pieces, rel=0.03)
    assert subword.choose_size(pairs, joint=False) == pytest.approx(pieces, rel=0.03)


def test_the_size_grows_with_the_text() -> None:
    sizes = [subword.choose_size(10**power, joint=True) for power in range(9)]
    assert sizes == sorted(sizes) and sizes[2] < 300


def test_rare_characters_of_large_scripts_are_spelled_in_bytes() -> None:
    common, rare = [chr(0x4E00 + i) for i in range(100)], [chr(0x5E00 + i) for i in range(1500)]
    lines = ["".join(common) * 40] * 1000
    few = Subword(size=3000).learn([*lines, "".join(rare[:100])])
    many = Subword(size=3000).learn([*lines, "".join(rare)])
    assert len(few.pieces(rare[50])) == 2  # the space mark and the character
    assert len(many.pieces(rare[50])) == 4  # the space mark and three bytes
    assert many.decode(many.encode(rare[50])) == rare[50]


def test_a_long_stream_is_sampled_evenly_and_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subword, "MOST_LINES", 1000)
    held: list[int] = []

    def stream() -> Iterator[str]:
        for i in range(50_000):
            held.append(i)
            yield f"line {i}"

    sample = subword.take_sample(stream())
    assert sample.total == 50_000 and 300 <= len(sample.lines) <= 1000
    numbers = [int(line.split()[1]) for line in sample.lines]
    assert 20_000 < np.mean(numbers) < 30_000
    assert sample == subword.take_sample(stream())
    monkeypatch.setattr(subword, "MOST_CHARACTERS", 500)
    assert sum(map(len, subword.take_sample(stream()).lines)) <= 500


@pytest.mark.parametrize("tags", [("de", "de"), ("d e",), ("",), ("<",), ("x" * 40,)])
@pytest.mark.parametrize("choice", [Subword(), Characters(), Words()])
def test_wrong_tags_are_refused(choice: Text, tags: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="language tag"):
        choice.learn(["text"], tags=tags)


# ---------------------------------------------------------------- characters and words


@given(text=st.text())
def test_characters_come_back(text: str) -> None:
    tokenizer = Characters().learn([text, "x"], tags=("de",))
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text and len(ids) == len(text)
    assert not ids or min(ids) > tokenizer.tags["de"]


@given(text=st.text())
def test_words_come_back_with_single_spaces(text: str) -> None:
    tokenizer = Words().learn([text, "x"], tags=("de",))
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == " ".join(text.split()) and len(ids) == len(text.split())
    assert not ids or min(ids) > tokenizer.tags["de"]


def test_words_keep_the_most_frequent_and_call_the_rest_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["b a a <s>", "a b c", "<s> a"]
    tokenizer = Words(size=3).learn(texts)
    assert [tokenizer.piece(i) for i in range(4, len(tokenizer))] == ["a", "<s>", "b"]
    assert tokenizer.pieces("a c <s>") == ["a", "<unk>", "<s>"]
    assert tokenizer.encode("<s>") == [5]
    assert tokenizer.decode([2, *tokenizer.encode("a c b"), EOS]) == "a ⁇ b"
    assert tokenizer.starts_word(4) and not tokenizer.starts_word(EOS)
    assert tokenizer.fingerprint == Words(size=3).learn(texts[::-1]).fingerprint
    monkeypatch.setattr(words, "MOST_COUNTED", 4)
    bounded = Words(size=2).learn(itertools.chain.from_iterable(["a b", f"rare{i}"] for i in range(100)))
    assert bounded.pieces("a b") == ["a", "b"]


def test_characters_mark_where_words_start() -> None:
    tokenizer = Characters().learn(["ab cd"])
    assert [tokenizer.starts_word(i) for i in tokenizer.encode("ab c")] == [False, False, True, False]
    assert tokenizer.encode("z\ud800") == [UNK, UNK]
    assert isinstance(tokenizer, Tokenizer)


# ---------------------------------------------------------------- configuration


@dataclass(frozen=True)
class Chapter:
    text: Text


def test_a_configuration_survives_toml() -> None:
    choice = Subword(algorithm="unigram", size=500, pieces=("<br>",), sampling=0.1)
    assert config.from_dict(Chapter, {"text": config.to_dict(choice)}) == Chapter(choice)
    assert config.from_dict(Chapter, {"text": {"kind": "words"}}) == Chapter(Words())
    assert "# one vocabulary for source and target" in config.dump(choice)


WRONG = [
    ({"size": 3}, "8 to 1,000,000"),
    ({"coverage": 0.5}, "0.98 to 1"),
    ({"sampling": 1.0}, "less than 1"),
    ({"sampling": -0.1}, "at least 0"),
    ({"pieces": ["a b"]}, "without spaces"),
    ({"pieces": [""]}, "at least one character"),
    ({"pieces": ["<s>"]}, "special token"),
    ({"pieces": ["<2de>"]}, "special token"),
    ({"pieces": ["x", "x"]}, "each may be given once"),
    ({"algorithm": "bqe"}, "bpe"),
    ({"siz": 5}, "did you mean size"),
]


@pytest.mark.parametrize(("table", "message"), WRONG)
def test_a_wrong_value_is_one_clear_line(table: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        config.from_dict(Subword, table)
    assert "\n" not in str(caught.value)


def test_a_vocabulary_of_words_has_a_size() -> None:
    with pytest.raises(UsageError, match="must be from 1 to 1,000,000"):
        config.from_dict(Words, {"size": 0})
