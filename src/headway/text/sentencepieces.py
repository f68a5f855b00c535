"""Tokeniser of a sentencepiece model: decoding restores the raw text, and no text encodes to special pieces."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import SupportsInt

import sentencepiece

from headway.errors import UsageError
from headway.text import files, spm
from headway.text.dropout import Dropout
from headway.text.lattice import Lattice
from headway.text.segmenting import Alphabet, Segmenter
from headway.text.unicode import SPACE_MARK, mend
from headway.text.vocabulary import BOS, EOS, PAD, UNK

_MARK_BYTES = [f"<0x{byte:02X}>" for byte in SPACE_MARK.encode()]
_BRACKETED = re.compile("<.*>", re.DOTALL)  # special pieces, languages and empty rows: never given by a text
_SEGMENTERS = {spm.UNIGRAM: Lattice, spm.BPE: Dropout}


class SentencePieces:
    """A sentencepiece model. Decoding restores the text exactly, apart from lone surrogates."""

    suffix = ".spm"

    def __init__(self, model: bytes) -> None:
        self._model = model
        self.fingerprint: str = hashlib.sha256(model).hexdigest()
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = list(range(len(self._processor)))
        self._pieces: list[str] = self._processor.id_to_piece(ids)
        silent = [i for i, control in enumerate(self._processor.is_control(ids)) if control]
        named = ((re.fullmatch("<2(.+)>", self._pieces[i]), i) for i in silent)
        self.tags: dict[str, int] = {match[1]: i for match, i in named if match}
        self._silent = frozenset([*silent, PAD, BOS, EOS])
        uncut = [i for i, unused in enumerate(self._processor.is_unused(ids)) if unused] + silent
        self._uncut = {piece: i for i in uncut if not _BRACKETED.fullmatch(piece := self._pieces[i])}
        self._mark_bytes: list[int] = self._processor.piece_to_id(_MARK_BYTES)

    @classmethod
    def read(cls, path: Path, trusted: bool) -> SentencePieces:
        """Open a model file; unless `trusted`, it is first opened in a child process with limited memory."""
        model = files.read(path)
        if not trusted:
            spm.try_in_child(model, str(path))
        try:
            tokenizer = cls(model)
        except (RuntimeError, ValueError, IndexError):
            raise UsageError(f"{path}: not a sentencepiece model, or it is damaged; copy it again") from None
        tokenizer._check(path)
        return tokenizer

    def _check(self, path: Path) -> None:
        model = self._processor
        found = (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id())
        if found != (PAD, UNK, BOS, EOS):
            wanted = f"pad, unk, bos, eos must be {PAD}, {UNK}, {BOS}, {EOS}"
            raise UsageError(
                f"{path}: the ids of its special pieces are {found}, but {wanted}; learn the vocabulary with headway"
            )

    # ------------------------------------------------------------ text to ids

    def encode(self, text: str) -> list[int]:
        """Return the ids of one text, encoded in this thread: the library starts a pool of threads for a list."""
        text = text if text.isascii() else mend(text)
        if SPACE_MARK in text:
            return self._encode_marked(text)
        ids: list[int] = self._processor.encode(text)
        return self._name_unknown(text, ids) if self._uncut and UNK in ids else ids

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text; the library uses as many threads as there are cores."""
        texts = [text if text.isascii() else mend(text) for text in texts]
        plain = [text if SPACE_MARK not in text else "" for text in texts]
        encoded: list[list[int]] = self._processor.encode(plain)
        for row, text in enumerate(texts):
            if SPACE_MARK in text:
                encoded[row] = self._encode_marked(text)
            elif self._uncut and UNK in encoded[row]:
                encoded[row] = self._name_unknown(text, encoded[row])
        return encoded

    def _name_unknown(self, text: str, ids: list[int]) -> list[int]:
        """The ids, where each unknown stretch whose letters are a piece that this model never cuts gets its id.

        Marian cuts by one file and numbers by another, so the second may name what the first does not know.
        """
        stretches: list[str] = self._processor.encode(text, out_type=str)
        return [self._uncut.get(name, UNK) if i == UNK else i for i, name in zip(ids, stretches, strict=True)]

    def _encode_marked(self, text: str) -> list[int]:
        """Return the ids of a text with "▁", which the library would read as a space.

        The mark is encoded as an unused character, whose byte tokens are then replaced by those of the mark.
        """
        model = self._processor
        codes = range(0x10FFFF, 0xFFFFF, -1)  # private use: rare in texts
        absent = (chr(code) for code in codes if chr(code) not in text)
        stand_in = next(letter for letter in absent if model.piece_to_id(letter) == UNK)
        spelled = model.piece_to_id([f"<0x{byte:02X}>" for byte in stand_in.encode()])
        return _replace(model.encode(text.replace(SPACE_MARK, stand_in)), spelled, self._mark_bytes)

    def pieces(self, text: str) -> list[str]:
        return [self._pieces[i] for i in self.encode(text)]

    # ------------------------------------------------------------ ids to text

    def decode(self, ids: Iterable[SupportsInt]) -> str:
        """Return the text of the ids. Special pieces and tags give nothing; an unknown piece gives ⁇."""
        return self._processor.decode([int(i) for i in ids if int(i) not in self._silent])

    def piece(self, index: int) -> str:
        return self._pieces[index]

    def starts_word(self, index: int) -> bool:
        return self._pieces[index].startswith(SPACE_MARK)

    def __len__(self) -> int:
        return len(self._pieces)

    # ------------------------------------------------------------ other

    def segmenter(self, alpha: float) -> Segmenter:
        """Return a sampler of other segmentations: BPE-dropout for BPE, lattice sampling for unigram models."""
        algorithm, pieces = spm.contents(self._model)
        if algorithm not in _SEGMENTERS:
            raise UsageError("sampling needs a bpe or unigram model; set sampling = 0")
        return _SEGMENTERS[algorithm](Alphabet(pieces), alpha)

    @property
    def model(self) -> bytes:
        """The bytes of the sentencepiece model file."""
        return self._model

    def save(self, folder: Path, stem: str) -> None:
        files.write(folder / f"{stem}{self.suffix}", self._model)


def _replace(ids: list[int], old: list[int], new: list[int]) -> list[int]:
    if UNK in old:  # the vocabulary has no bytes: the mark is unknown, as the unused character was
        return ids
    out: list[int] = []
    for i in ids:
        out.append(i)
        if out[-len(old) :] == old:
            out[-len(old) :] = new
    return out
