"""Give the pieces of a sentencepiece model other ids without changing how it segments text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headway.text.spm import Piece, fields, varint
from headway.text.vocabulary import BOS, EOS, PAD, UNK

_PIECES, _TRAINER, _SELF_TEST = 1, 2, 4  # fields of ModelProto
_SIZE, _NAMES = 4, (45, 46, 47, 48)  # fields of TrainerSpec: vocabulary size; names of unk, bos, eos and pad
_SPECIAL = {40: UNK, 41: BOS, 42: EOS, 43: PAD}


def renumbered(model: bytes, pieces: Sequence[Piece]) -> bytes:
    """Return the model file with these pieces in this order; the first four must be pad, unk, bos and eos."""
    kept = [(number, value, raw) for number, value, raw in fields(model) if number not in (_PIECES, _SELF_TEST)]
    rest = (
        _trainer(value, len(pieces)) if n == _TRAINER and isinstance(value, bytes) else raw for n, value, raw in kept
    )
    return b"".join([*(_message(_PIECES, _piece(piece)) for piece in pieces), *rest])


def _trainer(spec: bytes, size: int) -> bytes:
    dropped = (_SIZE, *_NAMES, *_SPECIAL)
    kept = b"".join(raw for number, _, raw in fields(spec) if number not in dropped)
    numbers = {_SIZE: size, **_SPECIAL}
    return _message(_TRAINER, kept + b"".join(varint(number << 3) + varint(value) for number, value in numbers.items()))


def _piece(piece: Piece) -> bytes:
    score = np.float32(piece.score).tobytes()
    return _message(1, piece.text.encode()) + bytes([2 << 3 | 5]) + score + bytes([3 << 3]) + varint(piece.kind)


def _message(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data
