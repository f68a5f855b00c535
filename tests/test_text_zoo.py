"""Two hundred odd texts: each gets an answer, none gets out of hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.serve.settings import Limits
from model_folders import random_folder
from server_client import Asked, asking
from serving import DeskWorker, FakeWorker

SIGNS = [
    "<unk>",
    "</s>",
    "<s>",
    "<pad>",
    "<2de>",
    "▁",
    "⁇",
    "<|endoftext|>",
    "[MASK]",
    "\\N",
    "%s",
    "{}",
    "{{x}}",
    "${a}",
    "NULL",
]
ODD = [
    "", " ", "\t", "\n", "\r\n\r\n", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2028", "\x85", "\0", "a\0b",
    "\x1b[31m", "\x07", "😀", "👩‍👩‍👧‍👦", "🇩🇪🇩🇪", "❤️", "e" + "\u0301" * 300, "Z͑ͫ̓ͪ̂ͫ̽͏", "\u202eright to left", "אבג",
    "مرحبا", "ไทย", "日本語", "中文。中文！", "한국어", "ß", "ﬃ", "İi", "ǅ", "𝔘𝔫𝔦", "\U0010ffff", "\uffff",
    "\ue000", "½", "①", "Ⅷ", "a", "1", ".", "?!", "…", "-", "—", "'", '"', "`", "x" * 5000,
    "a " * 2500, "word " * 1000, "." * 5000, "\n" * 5000, "a\n" * 2500, "( " * 2500, "é" * 5000, "漢" * 5000,
    "http://a.example/?q=1&b=2#c", "a@b.example", "C:\\x\\y", "../../etc/passwd",
    "'; DROP TABLE t; --", "<script>alert(1)</script>", "&amp;&lt;&#0;&#x110000;",
    "<b>", "</b>", "<b><i></b></i>", "<!--", "<a href='", "<![CDATA[", "{{7*7}}", "=1+1", "\\u0000", "%00",
]  # fmt: skip
ZOO = [
    *SIGNS, *(f"{sign} dog {sign}" for sign in SIGNS), *ODD, *(f"the {text[:50]} cat" for text in ODD),
    *(text[:50] * 9 for text in ODD if text[:50].strip()),
]  # fmt: skip


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    with asking(FakeWorker) as asked:
        yield asked


def test_there_are_two_hundred() -> None:
    assert len(ZOO) >= 200


@pytest.mark.parametrize("format", ["text", "html"])
def test_a_zoo_of_texts(asked: Asked, format: str) -> None:
    for text in ZOO:
        reply = asked("POST", "/translate", {"q": text, "source": "en", "target": "de", "format": format})
        assert reply.status == 200, text
        assert len(reply.json()["translatedText"]) <= 6 * len(text) + 10  # & grows to &amp;


def test_a_zoo_in_one_go(asked: Asked) -> None:
    for start in range(0, len(ZOO), 50):
        texts = ZOO[start : start + 50]
        answer = asked("POST", "/translate", {"q": texts, "source": "auto", "target": "de"}).json()
        assert len(answer["translatedText"]) == len(answer["detectedLanguage"]) == len(texts)


def test_a_zoo_and_a_model(tmp_path: Path) -> None:
    """Whatever is written into a text, it cannot speak to the model in signs of its own."""
    folder = random_folder(tmp_path / "toy")
    texts = [f"{sign} dog {sign}" for sign in SIGNS]
    with asking(lambda: DeskWorker({"toy": folder}), beam=1, limits=Limits(deadline=120.0)) as asked:
        reply = asked("POST", "/translate", {"q": texts, "source": "en", "target": "de"})
    assert reply.status == 200
    assert not any(sign in text for text in reply.json()["translatedText"] for sign in ("</s>", "<pad>", "<2de>"))
