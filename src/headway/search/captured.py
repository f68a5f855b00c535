"""Beam search on CUDA as recorded graphs: a step, model and choice, is one launch, and nothing waits for the host.

Batches are padded to a few shapes; each shape is recorded once and replayed for every batch that fits it. A step
writes only which piece followed which row; texts are read back from that at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from headway.models import EncoderDecoder, Rows
from headway.numerics.graph import Graph
from headway.parts.states import Fixed, Indexed
from headway.search.base import Hypothesis
from headway.search.beam import Beam
from headway.search.lean import LeanWriter
from headway.search.limits import Limits
from headway.search.trellis import Extent, Trellis
from headway.search.writing import flat
from headway.text.vocabulary import EOS, PAD

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MOST_SLOTS = 128  # longer outputs move their keys
LOOK_EVERY = 2  # steps between two looks at the device, each of which sees what was before the last
SMALLEST = 16  # lengths are rounded up to multiples of this


@dataclass(frozen=True)
class Shape:
    """What one recording is good for."""

    sentences: int
    source: int
    target: int


def room_for(source: Int[Tensor, "b s"], limits: Limits) -> Shape:
    sentences = next((rows for rows in ROWS if rows >= len(source)), len(source))
    return Shape(sentences, up(source.size(1)), up(int(limits.caps(source).max())))


def up(length: int) -> int:
    return -(-length // SMALLEST) * SMALLEST


@runtime_checkable
class Writer(Protocol):
    """Reads a source and writes a piece at a time, in tensors that never move."""

    def read(self, source: Int[Tensor, "b s"]) -> None: ...

    def write(self, trellis: Trellis) -> None: ...


# For outputs of up to so many pieces.
MakeWriter = Callable[[EncoderDecoder, Beam, int], Writer]


class ModelWriter:
    """Any model, by its own steps."""

    def __init__(self, model: EncoderDecoder, search: Beam, room: Callable[[], Fixed]) -> None:
        self.model, self.search, self.room = model, search, room
        self.rows: Rows | None = None

    def read(self, source: Int[Tensor, "b s"]) -> None:
        self.rows = self.model.start(source, self.room)
        self.rows.pos = self.rows.pos.clone()

    def write(self, trellis: Trellis) -> None:
        rows = self.rows
        assert rows is not None
        pos = rows.pos
        parents = trellis.advance(self.model.step(trellis.last.flatten(), rows), self.search)
        rows.pos = pos.copy_(rows.pos)
        if self.search.size > 1:
            rows.reorder(flat(parents, self.search.size))


def model_writer(model: EncoderDecoder, search: Beam, room: int) -> Writer:
    half = model.head.weight.dtype != torch.float32
    indexed = half and search.size > 1 and room <= MOST_SLOTS
    return ModelWriter(model, search, partial(Indexed if indexed else Fixed, room))


def leanest_writer(model: EncoderDecoder, search: Beam, room: int) -> Writer:
    lean = LeanWriter.can(model, search)
    return LeanWriter(model, search, room) if lean else model_writer(model, search, room)


class Look:
    """How many sentences were left some steps ago: the device has work while the host looks."""

    def __init__(self, left: Int[Tensor, "1"]) -> None:
        on_card = left.is_cuda
        self.left = left
        self.seen = [torch.ones(1, dtype=left.dtype, pin_memory=on_card) for _ in range(2)]
        self.events = [torch.cuda.Event() for _ in range(2)] if on_card else []

    def over(self, number: int) -> bool:
        """Ask now, and answer what was asked before; the first answer is no."""
        now, before = number % 2, (number + 1) % 2
        self.seen[now].copy_(self.left, non_blocking=True)
        if self.events:
            self.events[now].record()
        if number == 0:
            return False
        if self.events:
            self.events[before].synchronize()
        return not int(self.seen[before])


@dataclass
class Recording:
    """One shape: the tensors it lives in, and two graphs, one that reads a source and one that writes a piece."""

    writer: Writer
    search: Beam
    source: Int[Tensor, "b s"]
    trellis: Trellis
    given: Int[Tensor, "b s"]  # on the host, as is the next
    result: Trellis
    look: Look
    reading: Graph | None = None
    writing: Graph | None = None

    @classmethod
    def make(cls, writer: Writer, search: Beam, shape: Shape, device: torch.device) -> Recording:
        pinned = device.type == "cuda"
        given = torch.full((shape.sentences, shape.source), PAD, pin_memory=pinned)
        given[:, 0] = EOS
        extent = Extent(shape.sentences, search.size, search.n_best, shape.target)
        trellis, result = Trellis(extent, device), Trellis(extent, torch.device("cpu"), pinned)
        result.open(search.limits.caps(given), search)
        trellis.restart(result)
        return cls(writer, search, given.to(device), trellis, given, result, Look(trellis.left))

    def record(self, pool: Any) -> None:
        """Once beside the main stream, as libraries choose their kernels then; then for the record."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.read()
            self.write()
        torch.cuda.current_stream().wait_stream(side)
        self.reading, self.writing = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.reading, pool=pool):
            self.read()
        with torch.cuda.graph(self.writing, pool=pool):
            self.write()

    def read(self) -> None:
        """Encode, and write the first piece: this makes the buffers that later steps fill."""
        self.writer.read(self.source)
        self.write()

    def write(self) -> None:
        self.writer.write(self.trellis)

    def run(self, source: Int[Tensor, "b s"]) -> list[list[Hypothesis]]:
        """A source on the host; what it became."""
        steps = self.steps(self.begin(source))
        self.result.copy_steps(self.trellis, steps)
        return self.result.hypotheses(len(source), steps)

    def begin(self, source: Int[Tensor, "b s"]) -> int:
        """Send a source and an empty trellis; how many steps it may take."""
        count, width = source.shape
        caps = self.search.limits.caps(source)
        self.given.fill_(PAD)[count:, 0] = EOS
        self.given[:count, :width] = source
        self.source.copy_(self.given, non_blocking=True)
        self.result.open(caps, self.search)
        self.trellis.restart(self.result)
        return int(caps.max())

    def steps(self, most: int) -> int:
        """Write until no sentence is left; how many steps that took."""
        assert self.reading is not None and self.writing is not None
        self.reading.replay()
        for step in range(1, most):
            if step % LOOK_EVERY == 0 and self.look.over(step // LOOK_EVERY - 1):
                return step
            self.writing.replay()
        return most


class CapturedBeam:
    """Beam search (a beam of one is greedy) that replays recordings, one a shape."""

    def __init__(
        self, model: EncoderDecoder, search: Beam, most: int = 48, writer: MakeWriter = leanest_writer
    ) -> None:
        self.model, self.search, self.most, self.writer = model, search, most, writer
        self.recordings: dict[Shape, Recording] = {}
        self.pool: Any = None

    @torch.inference_mode()
    def __call__(self, source: Int[Tensor, "b s"]) -> list[list[Hypothesis]]:
        if not len(source):
            return []
        source = source.cpu()
        shape = room_for(source, self.search.limits)
        if shape not in self.recordings:
            self.recordings[shape] = self.recorded(shape)
        return self.recordings[shape].run(source)

    def recorded(self, shape: Shape) -> Recording:
        if len(self.recordings) >= self.most:  # forget the oldest: shapes of odd inputs must not pile up
            self.recordings.pop(next(iter(self.recordings)))
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        writer = self.writer(self.model, self.search, shape.target)
        recording = Recording.make(writer, self.search, shape, self.model.head.weight.device)
        recording.record(self.pool)
        return recording
