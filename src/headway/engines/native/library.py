"""The compiled kernel as Python sees it: models, states and one function for each thing they can do."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_float, c_int, c_int64, c_void_p

import numpy as np

from headway.errors import UsageError

Array = np.ndarray


class Sizes(Structure):
    """As in kernel/model.h."""

    _fields_ = [
        *[(name, c_int) for name in ("encoder", "decoder", "width", "features", "heads", "head_width", "inner")],
        *[(name, c_int) for name in ("source_words", "target_words", "longest")],
        *[(name, c_int) for name in ("feed", "place", "centred", "quantised")],
        ("scale", c_float),
        ("epsilon", c_float * 2),
    ]


class Wish(Structure):
    """As in kernel/search.h."""

    _fields_ = [("beam", c_int), ("keep", c_int), ("enough", c_int), ("alpha", c_float)]


ARRAYS = ("ids", "lengths", "finished", "counts", "piece_scores", "totals", "scores")


class FoundPointers(Structure):
    """As in kernel/search.h."""

    _fields_ = [
        ("room", c_int),
        *[(name, c_void_p) for name in ARRAYS],
    ]


SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "model": (c_int, [POINTER(Sizes), POINTER(c_void_p), c_int, c_void_p, POINTER(c_void_p)]),
    "free_model": (None, [c_void_p]),
    "state": (c_int, [c_void_p, POINTER(c_void_p)]),
    "free_state": (None, [c_void_p]),
    "bytes": (c_int64, [c_void_p]),
    "rows": (c_int, [c_void_p]),
    "start": (c_int, [c_void_p, c_void_p, c_void_p, c_int]),
    "step": (c_int, [c_void_p, c_void_p, c_void_p]),
    "select": (c_int, [c_void_p, c_void_p, c_int]),
    "multiply": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_int, c_int]),
    "search": (c_int, [c_void_p, c_void_p, c_void_p, c_int, c_void_p, POINTER(Wish), POINTER(FoundPointers)]),
}


class Found:
    """Outputs of a search: `keep` places for each sentence, each with room for so many pieces."""

    def __init__(self, sentences: int, keep: int, room: int) -> None:
        shape = (sentences, keep)
        self.counts = np.zeros(sentences, np.int32)
        self.ids, self.piece_scores = np.zeros((*shape, room), np.int32), np.zeros((*shape, room), np.float32)
        self.lengths, self.finished = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self.totals, self.scores = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.room = room

    def pointers(self) -> FoundPointers:
        return FoundPointers(self.room, *(getattr(self, name).ctypes.data for name in ARRAYS))


class Kernel:
    """The library with its signatures declared."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, f"headway_{name}")
            function.restype, function.argtypes = result, arguments
        self.call = {name: getattr(library, f"headway_{name}") for name in SIGNATURES}

    def check(self, name: str, *arguments: object) -> None:
        """Call, and turn what the kernel says into an error."""
        result = self.call[name](*arguments)
        if result == 1:
            raise UsageError("not enough memory to translate; use smaller batches or a smaller beam")
        if result == 2:
            raise UsageError("a piece, a row or a length is outside the model's range")
        if result:
            raise RuntimeError(f"the kernel failed in {name}")


class NativeModel:
    """Weights in the kernel's own layout. Read only, so threads may share it."""

    def __init__(self, kernel: Kernel, sizes: Sizes, tensors: Sequence[Array | None], reads: Array) -> None:
        self.kernel, self.sizes = kernel, sizes
        addresses = (c_void_p * len(tensors))(*(None if each is None else each.ctypes.data for each in tensors))
        made = c_void_p()
        kernel.check("model", byref(sizes), addresses, len(tensors), reads.ctypes.data, byref(made))
        self.pointer = made
        weakref.finalize(self, kernel.call["free_model"], made)


class NativeState:
    """Sentences being translated. Only one thread may use it at a time."""

    def __init__(self, model: NativeModel) -> None:
        self.model, self.kernel = model, model.kernel  # the model must live as long as its states
        made = c_void_p()
        self.kernel.check("state", model.pointer, byref(made))
        self.pointer = made
        weakref.finalize(self, self.kernel.call["free_state"], made)

    @property
    def bytes(self) -> int:
        return self.kernel.call["bytes"](self.pointer)

    @property
    def rows(self) -> int:
        return self.kernel.call["rows"](self.pointer)

    def start(self, ids: Array, lengths: Array) -> None:
        ids, lengths = whole(ids), whole(lengths)
        if ids.size != lengths.sum(dtype=np.int64):
            raise ValueError(f"{ids.size} pieces for sentences of {lengths.sum()}")
        self.kernel.check("start", self.pointer, ids.ctypes.data, lengths.ctypes.data, len(lengths))

    def step(self, last: Array, logits: Array) -> None:
        last = whole(last)
        rows, words = self.rows, self.model.sizes.target_words
        if last.size != rows or logits.shape != (rows, words) or logits.dtype != np.float32:
            raise ValueError(f"{last.size} last pieces and logits of {logits.shape} for {rows} rows of {words} pieces")
        if not logits.flags.c_contiguous:
            raise ValueError("logits must lie side by side")
        self.kernel.check("step", self.pointer, last.ctypes.data, logits.ctypes.data)

    def select(self, rows: Array) -> None:
        rows = whole(rows)
        self.kernel.check("select", self.pointer, rows.ctypes.data, rows.size)

    def search(self, ids: Array, lengths: Array, caps: Array, wish: Wish) -> Found:
        ids, lengths, caps = whole(ids), whole(lengths), whole(caps)
        if ids.size != lengths.sum(dtype=np.int64) or caps.size != lengths.size or caps.min() < 1:
            raise ValueError(f"{ids.size} pieces, {lengths.size} lengths and {caps.size} caps do not fit together")
        found = Found(len(lengths), wish.keep, int(caps.max()))
        addresses = (ids.ctypes.data, lengths.ctypes.data)
        self.kernel.check(
            "search", self.pointer, *addresses, len(lengths), caps.ctypes.data, byref(wish), byref(found.pointers())
        )
        return found


def whole(numbers: Array) -> Array:
    """As the kernel reads them: 32 bits, side by side."""
    return np.ascontiguousarray(numbers, dtype=np.int32)
