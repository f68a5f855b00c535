"""Beam search on CUDA as recorded graphs: a step, model and choice, is one launch, and nothing waits for the host.

Batches are padded to a few shapes; each shape is recorded once and replayed for every batch that fits it. A step
writes only which piece followed which row; texts are read back from that at the end. A large batch is a queue: as many
sentences as fill the card are worked on, and one that is done makes way for the next.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from headway.engines.cuda.beam_buffers import Extent, Trellis
from headway.engines.cuda.fused_decoder import LeanWriter
from headway.model.cuda_graph import Graph, record_onto
from headway.model.decoders.transformer import TransformerState
from headway.model.models import EncoderDecoder
from headway.model.states import Fixed, Indexed
from headway.search.base import Hypothesis
from headway.search.beam import Beam
from headway.search.limits import Limits
from headway.search.loop import flat
from headway.text.vocabulary import EOS, PAD

MOST_LANES = 1024  # sentences worked on at a time ...
MOST_ROWS = 1280  # ... with all their hypotheses
MOST_QUEUED = 4096  # sentences, waiting or not
MOST_SLOTS = 128  # longer outputs move their keys
LOOK_EVERY = 2  # steps between two looks at the device, each of which sees what was before the last
SMALLEST = 16  # lengths are rounded up to multiples of this
LEAST_FREE, FEW = 0.25, 4  # of the card's memory, before recordings are forgotten; so many are always kept


@dataclass(frozen=True)
class Shape:
    """What one recording is good for."""

    sentences: int
    source: int
    target: int

    def extent(self, search: Beam) -> Extent:
        lanes = min(self.sentences, lanes_for(search.size))
        return Extent(self.sentences, search.size, search.n_best, self.target, lanes)


def room_for(source: Int[Tensor, "b s"], limits: Limits) -> Shape:
    sentences = min(power_above(len(source)), up(len(source), MOST_LANES))
    return Shape(sentences, up(source.size(1)), up(int(limits.caps(source).max())))


def lanes_for(size: int) -> int:
    """The largest power of two whose hypotheses the card can work on together."""
    return min(MOST_LANES, 1 << (max(1, MOST_ROWS // size).bit_length() - 1))


def power_above(count: int) -> int:
    return 1 << (count - 1).bit_length()


def up(length: int, step: int = SMALLEST) -> int:
    return -(-length // step) * step


@runtime_checkable
class Writer(Protocol):
    """Reads sources and writes a piece at a time, in tensors that never move."""

    @property
    def extent(self) -> Extent: ...

    def read(self, source: Int[Tensor, "b s"]) -> None: ...

    def write(self, trellis: Trellis, search: Beam) -> None: ...


MakeWriter = Callable[[EncoderDecoder, Extent], Writer]


class ModelWriter:
    """Any model, by its own steps. Here nobody waits: every sentence has a lane of its own."""

    def __init__(self, model: EncoderDecoder, extent: Extent, room: Callable[[], Fixed]) -> None:
        self.model, self.extent, self.room = model, extent._replace(lanes=extent.sentences), room
        self.rows: TransformerState | None = None

    def read(self, source: Int[Tensor, "b s"]) -> None:
        rows = self.model.start(source, self.room)
        assert isinstance(rows, TransformerState)
        rows.pos = rows.pos.clone()
        self.rows = rows

    def write(self, trellis: Trellis, search: Beam) -> None:
        rows = self.rows
        assert rows is not None
        pos = rows.pos
        parents = trellis.advance(self.model.step(trellis.last.flatten(), rows), search)
        rows.pos = pos.copy_(rows.pos)
        if search.size > 1:
            rows.reorder(flat(parents, search.size))


def model_writer(model: EncoderDecoder, extent: Extent) -> Writer:
    half = model.head.weight.dtype != torch.float32
    indexed = half and extent.size > 1 and extent.room <= MOST_SLOTS
    return ModelWriter(model, extent, partial(Indexed if indexed else Fixed, extent.room))


def leanest_writer(model: EncoderDecoder, extent: Extent) -> Writer:
    return LeanWriter(model, extent) if LeanWriter.can(model, extent.size) else model_writer(model, extent)


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
    """One shape: the tensors it lives in, and two graphs, one that reads sources and one that writes a piece."""

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
    def make(cls, writer: Writer, search: Beam, length: int, device: torch.device) -> Recording:
        pinned = device.type == "cuda"
        given = torch.full((writer.extent.sentences, length), PAD, pin_memory=pinned)
        given[:, 0] = EOS
        trellis, result = Trellis(writer.extent, device), Trellis(writer.extent, torch.device("cpu"), pinned)
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
        reading, writing = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with record_onto(reading, pool):
            self.read()
        with record_onto(writing, pool):
            self.write()
        self.reading, self.writing = reading, writing

    def read(self) -> None:
        """Encode, and write the first piece: this makes the buffers that later steps fill."""
        self.writer.read(self.source)
        self.write()

    def write(self) -> None:
        self.writer.write(self.trellis, self.search)

    def run(self, source: Int[Tensor, "b s"]) -> Trellis:
        """A source on the host; what became of it, in memory of its own."""
        steps = self.steps(self.begin(source))
        self.result.copy_log(self.trellis, steps)
        return self.result.copy()

    def begin(self, source: Int[Tensor, "b s"]) -> int:
        """Send a source and an empty trellis; how many steps it may take."""
        count, width = source.shape
        caps = self.search.limits.caps(source)
        self.given.fill_(PAD)[count:, 0] = EOS
        self.given[:count, :width] = source
        self.source.copy_(self.given, non_blocking=True)
        self.result.open(caps, self.search)
        self.trellis.restart(self.result)
        return int(caps.sum() if self.writer.extent.queued else caps.max())

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
        self,
        model: EncoderDecoder,
        search: Beam,
        most: int = 48,
        writer: MakeWriter = leanest_writer,
        busy: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.model, self.search, self.most, self.writer = model, search, most, writer
        self.recordings: dict[Shape, Recording] = {}
        self.busy = busy or Lock()  # recordings and the card serve one batch at a time
        self.at_once = MOST_QUEUED if LeanWriter.can(model, search.size) else lanes_for(search.size)
        self.pool: Any = None

    def __call__(self, source: Int[Tensor, "b s"]) -> list[list[Hypothesis]]:
        """Of sources on the host. The longest should come first, so that none is left alone at the end."""
        outputs: list[list[Hypothesis]] = []
        for part in source.cpu().split(self.at_once) if len(source) else ():
            with self.busy, torch.cuda.device_of(self.model.head.weight):
                found = self.run(part)
            outputs += found.hypotheses(len(part))  # while the card has the next batch
        return outputs

    @torch.inference_mode()
    def run(self, source: Int[Tensor, "b s"]) -> Trellis:
        shape = room_for(source, self.search.limits)
        if shape not in self.recordings:
            self.recordings[shape] = self.recorded(shape)
        return self.recordings[shape].run(source)

    def recorded(self, shape: Shape) -> Recording:
        if len(self.recordings) >= self.most or (len(self.recordings) >= FEW and self.crowded()):
            self.recordings.clear()  # shapes of odd inputs must not pile up
            self.pool = None  # a pool goes with its last graph
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        writer = self.writer(self.model, shape.extent(self.search))
        made = Recording.make(writer, self.search, shape.source, self.model.head.weight.device)
        made.record(self.pool)
        return made

    def crowded(self) -> bool:
        """Whether the card's memory is short."""
        device = self.model.head.weight.device
        if device.type != "cuda":
            return False
        free, whole = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + cached < LEAST_FREE * whole
