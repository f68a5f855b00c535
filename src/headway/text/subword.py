"""Learn subword pieces from raw text with sentencepiece."""

from __future__ import annotations

import io
import random
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import sentencepiece

from headway.errors import UsageError
from headway.text.sentencepieces import SentencePieces
from headway.text.spm import without_rule_path
from headway.text.tags import check_tags, tag_piece
from headway.text.unicode import SPACE_MARK, UNKNOWN, lowercase_rules, mend
from headway.text.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES, UNK

MOST_LINES = 1_000_000  # kept at once; of a larger text, pieces are learnt from half as many
MOST_CHARACTERS = 100_000_000  # and so many characters
LONGEST_LINE = 4_000  # characters; the trainer gives up on words of 65,536
MANY_CHARACTERS = 1_500  # more different ones than this: Chinese, Japanese, or a mixture of scripts

_RESERVED = re.compile(r"</?s>|<unk>|<pad>|<2.*>|<0x[0-9A-F]{2}>")
_UNLEARNABLE = re.compile(f"[\0\r\n▅{SPACE_MARK}]")  # the trainer skips lines with one of these


@dataclass(frozen=True)
class Subword:
    """Pieces learnt from the text: frequent words stay whole, rare ones are spelled in parts.

    The text is not normalised: case, spaces and every character come back as they went in. Only `lowercase`
    changes it, character by character, and the rule for it lies in the model file.
    """

    section: ClassVar[bool] = True

    kind: Literal["subword"] = "subword"  # subword, characters or words
    algorithm: Literal["bpe", "unigram"] = "bpe"  # how the vocabulary is learned and words are split
    size: int | None = None  # vocabulary size; unset: chosen from the amount of text, 10,000 for 30,000 pairs
    joint: bool = True  # one vocabulary for source and target
    coverage: float | None = None  # share of characters in the vocabulary; unset: 1, or 0.9995 if there are thousands
    byte_fallback: bool = True  # encode unknown characters as bytes
    pieces: tuple[str, ...] = ()  # strings that are never split, for example ["<br>"]
    sampling: float = 0.0  # 0: off; bpe: BPE-dropout probability; unigram: smoothing alpha; 0.1 is usual for both
    lowercase: bool = False  # lower-case all text; this cannot be undone

    def __post_init__(self) -> None:
        if self.size is not None and not 8 <= self.size <= 1_000_000:
            raise ValueError(f"size = {self.size}: a vocabulary has 8 to 1,000,000 pieces")
        if self.coverage is not None and not 0.98 <= self.coverage <= 1:
            raise ValueError(f"coverage = {self.coverage}: must be from 0.98 to 1")
        if not 0 <= self.sampling < 1:
            raise ValueError(f"sampling = {self.sampling}: must be at least 0 and less than 1")
        for piece in self.pieces:
            _check_piece(piece)
        if len(set(self.pieces)) < len(self.pieces):
            raise ValueError("pieces: each may be given once")

    def learn(self, texts: Iterable[str], tags: tuple[str, ...] = ()) -> SentencePieces:
        """Read the texts once, keep a bounded sample, and learn from that."""
        check_tags(tags)
        sample = take_sample(texts)
        if not sample.lines:
            raise UsageError("no text to learn pieces from: every line is empty; check the training files")
        characters = len(set().union(*sample.lines))
        coverage = self.coverage or (1.0 if characters <= MANY_CHARACTERS else 0.9995)
        fixed = len(SPECIAL_PIECES) + len(tags) + len(self.pieces) + 256 * self.byte_fallback
        size = self.size or max(choose_size(sample.total, self.joint), fixed + characters + 64)
        model = self._train(
            sample.lines,
            vocab_size=size,
            character_coverage=coverage,
            control_symbols=[tag_piece(tag) for tag in tags],
        )
        return SentencePieces(model)

    def _train(self, lines: list[str], **chosen: Any) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            rules: dict[str, Any] = {"normalization_rule_name": "identity"}
            if self.lowercase:
                path = Path(folder) / "lowercase.tsv"
                path.write_text(lowercase_rules(), encoding="utf-8")
                rules = {"normalization_rule_tsv": str(path)}
            model = io.BytesIO()
            try:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(lines),
                    model_writer=model,
                    model_type=self.algorithm,
                    byte_fallback=self.byte_fallback,
                    user_defined_symbols=list(self.pieces),
                    **_TRAINER,
                    **rules,
                    **chosen,
                )
            except RuntimeError as error:
                raise UsageError(self._explain(str(error))) from None
        return without_rule_path(model.getvalue())

    def _explain(self, error: str) -> str:
        small = re.search(r"smaller than required_chars\. (\d+) vs (\d+)", error)
        if small:
            return f"size = {small[1]} is too small: characters, bytes and special pieces need at least {small[2]}"
        return f"no pieces could be learnt from this text: sentencepiece says {error.strip()}"


_TRAINER: dict[str, Any] = {
    "pad_id": PAD,
    "unk_id": UNK,
    "bos_id": BOS,
    "eos_id": EOS,
    "pad_piece": SPECIAL_PIECES[PAD],
    "unk_piece": SPECIAL_PIECES[UNK],
    "bos_piece": SPECIAL_PIECES[BOS],
    "eos_piece": SPECIAL_PIECES[EOS],
    "unk_surface": UNKNOWN,
    "remove_extra_whitespaces": False,  # raw text out must be the raw text in
    "hard_vocab_limit": False,  # a text too small for the size gives fewer pieces, not an error
    "max_sentence_length": 4 * LONGEST_LINE + 1,  # in bytes
    "num_threads": 2,  # fixed: the pieces must not depend on the machine
    "minloglevel": 2,
}


def _check_piece(piece: str) -> None:
    if not piece or any(letter.isspace() for letter in piece) or _UNLEARNABLE.search(piece) or piece != mend(piece):
        raise ValueError(f"pieces: {piece!r} must be at least one character, without spaces or ▁")
    if _RESERVED.fullmatch(piece):
        raise ValueError(f"pieces: {piece!r} is the name of a special piece; choose another")


def choose_size(lines: int, joint: bool) -> int:
    """About 10,000 pieces at 30,000 sentence pairs, 16,000 at 165,000, 32,000 at two million."""
    share = lines / (2 if joint else 1) / 30_000
    size = 10_000 * share ** (0.276 if share >= 1 else 0.75)  # few sentences cannot teach many pieces
    return min(32_000, 8 * round(size / 8))


class Sample(NamedTuple):
    lines: list[str]
    total: int  # lines there were, empty ones not counted


def take_sample(texts: Iterable[str]) -> Sample:
    """Every line is as likely as any other to be kept, and the same ones are kept every time."""
    chance, share = random.Random(0), 1.0
    lines: list[str] = []
    total = characters = 0
    for text in texts:
        if not text.strip():
            continue
        total += 1
        if share < 1 and chance.random() >= share:
            continue
        lines.append(_UNLEARNABLE.sub(" ", mend(text[:LONGEST_LINE])))
        characters += len(lines[-1])
        if len(lines) > MOST_LINES or characters > MOST_CHARACTERS:
            share /= 2
            lines = [line for line in lines if chance.random() < 0.5]
            characters = sum(map(len, lines))
    if share < 1:  # all texts that are too large give samples of one size: memory does not depend on theirs
        most = int(len(lines) * min(1.0, MOST_LINES / 2 / len(lines), MOST_CHARACTERS / 2 / characters))
        lines = [lines[place] for place in sorted(chance.sample(range(len(lines)), most))]
    return Sample(lines, total)
