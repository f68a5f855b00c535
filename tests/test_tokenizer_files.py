"""A tokeniser survives its file; a damaged or hostile file is refused in one line."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
import sentencepiece

from headway.errors import DiskError, UsageError
from headway.text import files, spm
from headway.text.sentencepieces import SentencePieces
from headway.text.tokenizer import Characters, Subword, Text, Words, load
from texts import BOTH, BPE, UNIGRAM, sentences

# ---------------------------------------------------------------- files


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("choice", [Subword(size=350), Characters(), Words()])
def test_a_saved_tokeniser_is_the_same_again(choice: Text, trusted: bool, tmp_path: Path) -> None:
    tokenizer = choice.learn(sentences(40), tags=("de", "en"))
    tokenizer.save(tmp_path, "source")
    again = load(tmp_path, "source", trusted=trusted)
    text = sentences(1, seed=9)[0]
    assert again.fingerprint == tokenizer.fingerprint and len(again) == len(tokenizer)
    assert again.encode(text) == tokenizer.encode(text) and again.tags == tokenizer.tags


def test_exactly_one_tokeniser_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no tokeniser; there must be exactly one of joint.spm"):
        load(tmp_path, "joint")
    for choice in (Words(), Characters()):
        choice.learn(["a b"]).save(tmp_path, "joint")
    with pytest.raises(UsageError, match="holds joint.chars.json and joint.words.json"):
        load(tmp_path, "joint")
    with pytest.raises(DiskError, match="cannot write"):
        BPE.save(tmp_path / "absent", "joint")


def model_of(algorithm: str = "bpe") -> bytes:
    return BPE._model if algorithm == "bpe" else UNIGRAM._model


def with_piece(text: bytes) -> bytes:
    piece = b"\x0a" + spm.varint(len(text)) + text
    return model_of() + b"\x0a" + spm.varint(len(piece)) + piece


def foreign_model() -> bytes:
    """Learnt with the library's own numbers for special pieces."""
    model = io.BytesIO()
    options = {"model_type": "char", "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences(5)), model_writer=model, **options)
    return model.getvalue()


DAMAGED = {
    "empty": b"",
    "noise": random.Random(0).randbytes(3000),
    "pickle": b"\x80\x04\x95\x00\x00",
    "cut short": model_of()[:2000],
    "the same piece twice": with_piece("▁".encode()),
    "not text": with_piece(b"\xff\xfe"),
    "another tool's numbers": foreign_model(),
}


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_model_is_refused_in_one_line(damage: str, trusted: bool, tmp_path: Path) -> None:
    (tmp_path / "joint.spm").write_bytes(DAMAGED[damage])
    with pytest.raises(UsageError, match=r"joint\.spm: [^\n]+$"):
        load(tmp_path, "joint", trusted=trusted)


def test_changed_bytes_never_end_the_process(tmp_path: Path) -> None:
    dice = random.Random(1)
    for _ in range(15):
        model = bytearray(model_of())
        for _ in range(dice.randint(1, 4)):
            model[dice.randrange(len(model))] = dice.randrange(256)
        (tmp_path / "joint.spm").write_bytes(model)
        try:
            assert load(tmp_path, "joint").encode("ein Text")
        except UsageError as error:
            assert "\n" not in str(error)


def test_a_piece_of_200_kb_does_not_end_the_process(tmp_path: Path) -> None:
    (tmp_path / "joint.spm").write_bytes(with_piece(b"a" * 200_000))
    try:
        assert load(tmp_path, "joint").decode([5]) == ""
    except UsageError as error:
        assert "joint.spm" in str(error)


def test_a_model_that_kills_its_reader_kills_only_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    BPE.save(tmp_path, "joint")
    monkeypatch.setattr(spm, "_TRIAL", "import os; os.abort()")
    with pytest.raises(UsageError, match="not a usable sentencepiece model"):
        load(tmp_path, "joint")
    monkeypatch.setattr(spm, "_TRIAL", "import time; time.sleep(60)")
    with pytest.raises(UsageError, match=r"takes more than 0\.5 s"):
        spm.try_in_child(b"", "joint.spm", seconds=0.5)


def test_the_child_imports_nothing_from_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    BPE.save(tmp_path, "joint")
    (tmp_path / "sentencepiece.py").write_text("open('canary', 'w').close()")
    monkeypatch.chdir(tmp_path)
    load(tmp_path, "joint")
    assert not (tmp_path / "canary").exists()


def test_too_large_a_file_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    BPE.save(tmp_path, "joint")
    monkeypatch.setattr(files, "LARGEST", 1000)
    with pytest.raises(UsageError, match="larger than"):
        load(tmp_path, "joint", trusted=True)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"{}", b'{"symbols": "ab", "tags": []}', b'{"symbols": ["a", "a"], "tags": []}']
    + [b'{"symbols": [1], "tags": []}', b'{"symbols": ["a"]}', b"[" * 100_000, b'{"a": ' + b"1" * 10_000 + b"}"],
)
def test_damaged_lists_are_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "joint.words.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"joint\.words\.json: [^\n]+$"):
        load(tmp_path, "joint")


@BOTH
def test_the_inside_of_a_model_agrees_with_the_library(tokenizer: SentencePieces) -> None:
    plain = sentencepiece.SentencePieceProcessor(model_proto=tokenizer._model)
    inside = spm.contents(tokenizer._model).pieces
    ids = list(range(len(plain)))
    assert [piece.text for piece in inside] == plain.id_to_piece(ids)
    assert [piece.score for piece in inside] == plain.get_score(ids)
    assert [piece.kind == spm.Kind.CONTROL for piece in inside] == plain.is_control(ids)
    assert [piece.kind == spm.Kind.BYTE for piece in inside] == plain.is_byte(ids)
    assert [piece.text for piece in inside if piece.kind == spm.Kind.USER_DEFINED] == ["<br>"]
