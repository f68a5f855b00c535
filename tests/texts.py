"""Made-up texts and the vocabularies learnt from them."""

from __future__ import annotations

import random

import pytest

from headway.text.sentencepieces import SentencePieces
from headway.text.tokenizer import Subword

SYLLABLES = ["ba", "grün", "ter", "lich", "en", "ver", "schlo", "mi", "ung", "ze", "ga", "straß", "o", "er", "nk"]
NASTY = ["<s>", "</s>", "<unk>", "<pad>", "<2de>", "<2en>", "▁", "<0x41>", "<br>", " ", "  ", "\n", "\r", "\0"]
NASTY += ["\u2028", "\u0085", "⁇", "▅", "\ufeff", "\U0010ffff", "\ufffd", "é", "e\u0301", "日本", "Ж", "😀", "a"]
CHINESE = ["我喜欢在花园里看书，你呢？", "１２３ＡＢＣ　全角文字はそのまま。", "她说：「不要走…」①㎞ｶﾅ"]


def sentences(count: int, seed: int = 0) -> list[str]:
    dice = random.Random(seed)
    word = lambda: "".join(dice.choices(SYLLABLES, k=dice.randint(1, 4)))  # noqa: E731
    return [" ".join(word() for _ in range(dice.randint(1, 12))).capitalize() + "." for _ in range(count)]


def learn(algorithm: str) -> SentencePieces:
    choice = Subword(algorithm=algorithm, size=420, pieces=("<br>",))  # type: ignore[arg-type]
    return choice.learn(sentences(600), tags=("de", "en"))


BPE, UNIGRAM = learn("bpe"), learn("unigram")
BOTH = pytest.mark.parametrize("tokenizer", [BPE, UNIGRAM], ids=["bpe", "unigram"])
