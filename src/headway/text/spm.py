"""Read and edit sentencepiece model files, and check that an untrusted one is safe to open.

The few protocol buffer fields are parsed here: the library does not expose scores and kinds of all pieces, and the
protobuf package would be a dependency for this file alone.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from headway.errors import UsageError
from headway.subprocesses import python, surroundings


class Kind(IntEnum):
    """Types of pieces, numbered as in sentencepiece_model.proto."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4  # never split
    UNUSED = 5
    BYTE = 6


class Piece(NamedTuple):
    """One entry of a sentencepiece vocabulary."""

    text: str
    score: float
    kind: int


UNIGRAM, BPE = 1, 2  # model types in sentencepiece_model.proto


class Contents(NamedTuple):
    """Algorithm (UNIGRAM or BPE) and vocabulary of a model file."""

    algorithm: int
    pieces: list[Piece]


# ---------------------------------------------------------------- wire format of protocol buffers

_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of ModelProto
_RULES, _RULE_FILE = 2, 6  # fields of NormalizerSpec: its rules, and the file they were read from
_MODEL_TYPE = 3  # field of TrainerSpec
_FIXED = {1: 8, 5: 4}  # bytes of a wire type with a fixed width


def contents(model: bytes) -> Contents:
    """Return the algorithm and all pieces with scores and kinds, which the library does not expose completely."""
    algorithm, pieces = UNIGRAM, list[Piece]()
    for number, value, _ in fields(model):
        if number == _PIECES and isinstance(value, bytes):
            pieces.append(_piece(value))
        elif number == _TRAINER and isinstance(value, bytes):
            algorithm = next((v for n, v, _ in fields(value) if n == _MODEL_TYPE), UNIGRAM)
    return Contents(int(algorithm), pieces)


def without_rule_path(model: bytes) -> bytes:
    """Return the model without the path of its rule file, so that the same text gives the same model anywhere."""
    out = b""
    for number, value, raw in fields(model):
        if number == _NORMALIZER and isinstance(value, bytes):
            value = b"".join(inner for n, _, inner in fields(value) if n != _RULE_FILE)
            raw = bytes([number << 3 | 2]) + varint(len(value)) + value
        out += raw
    return out


def rules(model: bytes) -> bytes:
    """Return the model's normalisation rules in the library's own binary form; empty if there are none."""
    specs = (value for number, value, _ in fields(model) if number == _NORMALIZER and isinstance(value, bytes))
    found = (value for spec in specs for number, value, _ in fields(spec) if number == _RULES)
    return next((value for value in found if isinstance(value, bytes)), b"")


def _piece(data: bytes) -> Piece:
    found: dict[int, Any] = {number: value for number, value, _ in fields(data)}
    score = np.frombuffer(found.get(2, b"\0\0\0\0"), "<f4")[0]
    return Piece(found[1].decode("utf-8"), float(score), found.get(3, Kind.NORMAL))


def fields(data: bytes) -> Iterator[tuple[int, bytes | int, bytes]]:
    """Yield number, value and raw bytes of each field of a protocol buffer message."""
    at = 0
    while at < len(data):
        begin = at
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _read_varint(data, at)
        else:
            width, at = (_FIXED[wire], at) if wire in _FIXED else _read_varint(data, at)
            value, at = data[at : at + width], at + width
        yield number, value, data[begin:at]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | data[at] << shift, at + 1


def varint(value: int) -> bytes:
    """Return a non-negative integer as a protocol buffer varint."""
    out: list[int] = []
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


# ---------------------------------------------------------------- safety check

MEMORY, SHARE = 1 << 30, 40  # memory limit of the child: bytes, and bytes more for each byte of the file

_TRIAL = """
import sys, sentencepiece
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
except (ImportError, ValueError, OSError):
    pass  # Windows and macOS: only time is limited
model = sentencepiece.SentencePieceProcessor(model_proto=sys.stdin.buffer.read())
ids = list(range(len(model)))
model.id_to_piece(ids), model.is_control(ids), model.decode(ids)
for text in ("", " ", "A b.", "ÄÖ ß", "日本語", "<s>", "\\0\\n", "\\U0001f600" * 50, "word " * 500):
    model.decode(model.encode(text))
"""


def try_in_child(model: bytes, name: str, seconds: float = 30.0) -> None:
    """Open an untrusted model in a child process, as a damaged one can crash the library; UsageError if it fails."""
    most = MEMORY + SHARE * len(model)
    command, where = python("-c", _TRIAL, str(most)), surroundings()
    try:
        trial = subprocess.run(command, input=model, capture_output=True, timeout=seconds, check=False, **where)
    except subprocess.TimeoutExpired:
        raise UsageError(f"{name}: opening it takes more than {seconds:g} s; it is damaged or hostile") from None
    if trial.returncode != 0:
        raise UsageError(f"{name}: not a usable sentencepiece model: it is damaged or was made by another tool")
