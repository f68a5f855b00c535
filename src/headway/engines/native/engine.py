"""The kernel that is compiled for this machine: one call translates a batch."""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.engines.base import Precision, as_beam, processors
from headway.engines.native.build import library
from headway.engines.native.library import Array, Found, Kernel, NativeModel, NativeState, Wish
from headway.engines.native.support import unsupported
from headway.engines.native.weights import pack
from headway.engines.pytorch import TorchEngine
from headway.model.design import Design
from headway.search import Hypothesis, Search
from headway.search.logits_processors import LogitsProcessor
from headway.text.vocabulary import PAD

LARGEST_KEPT = 512 << 20  # bytes of a state that waits for its next batch


class NativeRows:
    """Rows being written, for searches in Python. They give their state back when they are forgotten."""

    def __init__(self, engine: NativeEngine) -> None:
        self.state, self.begun = engine.take(), False
        weakref.finalize(self, engine.give, self.state)

    def begin(self, count: int) -> None:
        """A search may begin with several rows to a sentence."""
        if count > self.state.rows and count % self.state.rows == 0:
            self.select(torch.arange(self.state.rows).repeat_interleave(count // self.state.rows))

    def select(self, rows: Int[Tensor, "n"]) -> None:
        self.state.select(rows.numpy())

    reorder = select

    def keep(self, sentences: Int[Tensor, "m"], beam: int) -> None:
        self.select((sentences[:, None] * beam + torch.arange(beam)).flatten())


class NativeEngine:
    """Greedy and beam search run in the kernel; other searches, and logits processors, step through it from Python."""

    name = "native"

    def __init__(self, model: nn.Module, design: Design, precision: Precision, workers: int | None = None) -> None:
        """Raises Unavailable where the kernel cannot be built or cannot express the model."""
        packed = pack(design, model.state_dict(), precision)
        self.design = design
        self.native = NativeModel(Kernel(library()), *packed)
        self.precision: str = precision
        self.workers = workers or processors()
        self.longest, self.words = packed.sizes.longest, packed.sizes.target_words
        self.beyond = TorchEngine(model)  # for sentences longer than the kernel's tables
        self.free: deque[NativeState] = deque()

    def translate(
        self, source: Int[Tensor, "b s"], search: Search, logits_processors: Sequence[LogitsProcessor] = ()
    ) -> list[list[Hypothesis]]:
        if not len(source):
            return []
        beam = as_beam(search)
        caps = beam and beam.limits.caps(source)
        if source.size(1) > self.longest or (caps is not None and int(caps.max()) > self.longest):
            return self.beyond.translate(source, search, logits_processors)
        if beam is None or caps is None or unsupported(self.design, search, logits_processors):
            return search(self, source, logits_processors)
        state = self.take()
        found = state.search(*pieces(source), caps.numpy(), Wish(beam.size, beam.n_best, beam.enough, beam.alpha))
        self.give(state)
        return hypotheses(found)

    # ------------------------------------------------------------ for searches in Python

    def start(self, source: Int[Tensor, "b s"]) -> NativeRows:
        rows = NativeRows(self)
        rows.state.start(*pieces(source))
        return rows

    def step(self, last: Int[Tensor, "n"], rows: NativeRows) -> Float[Tensor, "n v"]:
        if not rows.begun:
            rows.begin(len(last))
            rows.begun = True
        logits = torch.empty(len(last), self.words)
        rows.state.step(last.numpy(), logits.numpy())
        return logits

    # ------------------------------------------------------------ states

    def take(self) -> NativeState:
        """One that nobody uses; its memory serves again."""
        try:
            return self.free.pop()
        except IndexError:
            return NativeState(self.native)

    def give(self, state: NativeState) -> None:
        if len(self.free) < self.workers and state.bytes <= LARGEST_KEPT:
            self.free.append(state)


def pieces(source: Int[Tensor, "b s"]) -> tuple[Array, Array]:
    """All pieces one after another, and how many each sentence has."""
    real = source != PAD
    return source[real].numpy(), real.sum(dim=1).numpy()


def hypotheses(found: Found) -> list[list[Hypothesis]]:
    nothing = Hypothesis([], -math.inf, -math.inf, [], finished=False)
    columns = (found.ids, found.piece_scores, found.lengths, found.finished, found.totals, found.scores)
    sentences = zip(found.counts.tolist(), *(column.tolist() for column in columns), strict=True)
    return [
        [
            Hypothesis(ids[:length], score, total, scores[: length + end], bool(end))
            for ids, scores, length, end, total, score in list(zip(*rows, strict=True))[:count]
        ]
        or [nothing]
        for count, *rows in sentences
    ]
