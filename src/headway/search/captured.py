"""Search on CUDA as recorded graphs: a whole step, model and choice, is one launch, and nothing waits for the host.

Batches are padded to a few shapes; each shape is recorded once and replayed for every batch that fits it.
"""

from __future__ import annotations


from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from headway.models import EncoderDecoder, Rows
from headway.parts.states import Fixed
from headway.search.base import Hypothesis
from headway.search.beam import Beam, BeamDraft
from headway.search.candidates import best_of_all
from headway.search.limits import Limits
from headway.search.writing import flat, forbid, log_probabilities
from headway.text.vocabulary import EOS, PAD

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
LOOK_EVERY = 6  # steps between two looks at the device
SMALLEST = 16  # source and target lengths are rounded up to multiples of this


@dataclass(frozen=True)
class Shape:
    """What one recording is good for."""

    sentences: int
    source: int
    target: int


def room_for(source: Int[Tensor, "b s"], limits: Limits) -> Shape:
    sentences = next((rows for rows in ROWS if rows >= len(source)), len(source))
    longest = int(limits.caps(source).max())
    return Shape(sentences, up(source.size(1)), up(longest))


def up(length: int) -> int:
    return -(-length // SMALLEST) * SMALLEST


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors of a draft, those of its pool too, in one order."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for f in fields(value) for tensor in tensors_in(getattr(value, f.name))]


@dataclass
class Recording:
    """One shape: the tensors it lives in, and two graphs, one that reads a source and one that writes a piece."""

    model: EncoderDecoder
    search: Beam
    shape: Shape
    source: Int[Tensor, "b s"]
    draft: BeamDraft
    reading: torch.cuda.CUDAGraph = field(default_factory=torch.cuda.CUDAGraph)
    writing: torch.cuda.CUDAGraph = field(default_factory=torch.cuda.CUDAGraph)
    rows: Rows | None = None

    @classmethod
    def make(cls, model: EncoderDecoder, search: Beam, shape: Shape, pool: Any) -> Recording:
        device = model.head.weight.device
        source = torch.full((shape.sentences, shape.source), PAD, device=device)
        source[:, 0] = EOS
        draft = search.opening(source, search.size, room=shape.target)
        made = cls(model, search, shape, source, draft)
        made.record(pool)
        return made

    def record(self, pool: Any) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # once beside, as libraries choose their kernels then
            self.read()
            self.write()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.reading, pool=pool):
            self.read()
        with torch.cuda.graph(self.writing, pool=pool):
            self.write()

    def read(self) -> None:
        """Encode, and write the first piece: this makes the buffers that later steps fill."""
        self.rows = self.model.start(self.source, partial(Fixed, self.shape.target))
        self.rows.pos = self.rows.pos.clone()
        self.step(self.rows)

    def write(self) -> None:
        assert self.rows is not None
        pos = self.rows.pos
        self.step(self.rows)
        self.rows.pos = pos.copy_(self.rows.pos)

    def step(self, rows: Rows) -> None:
        draft = self.draft
        scores = forbid(log_probabilities(self.model.step(draft.last.flatten(), rows)))
        after, parents = self.search.settle(draft, best_of_all(scores, draft.totals, 2 * self.search.size))
        if self.search.size > 1:
            rows.reorder(flat(parents, self.search.size))
        for held, new in zip(tensors_in(draft), tensors_in(after), strict=True):
            if held is not new:
                held.copy_(new)

    def run(self, source: Int[Tensor, "b s"]) -> list[list[Hypothesis]]:
        count, width = source.shape
        self.source.fill_(PAD)
        self.source[count:, 0] = EOS
        self.source[:count, :width] = source
        opening = self.search.opening(self.source, self.search.size, room=self.shape.target)
        opening.done[count:] = True
        for held, new in zip(tensors_in(self.draft), tensors_in(opening), strict=True):
            held.copy_(new)
        self.reading.replay()
        longest = int(opening.cap[:count].max())
        for step in range(1, longest):
            self.writing.replay()
            if step % LOOK_EVERY == 0 and bool(self.draft.done.all()):
                break
        return self.draft.hypotheses()[:count]


class CapturedBeam:
    """Beam search (a beam of one is greedy) that replays recordings, one a shape."""

    def __init__(self, model: EncoderDecoder, search: Beam, most: int = 48) -> None:
        self.model, self.search, self.most = model, search, most
        self.recordings: dict[Shape, Recording] = {}
        self.pool: Any = None

    @torch.inference_mode()
    def __call__(self, source: Int[Tensor, "b s"]) -> list[list[Hypothesis]]:
        if not len(source):
            return []
        shape = room_for(source, self.search.limits)
        recording = self.recordings.get(shape)
        if recording is None:
            if len(self.recordings) >= self.most:  # forget the oldest: shapes of odd inputs must not pile up
                self.recordings.pop(next(iter(self.recordings)))
            self.pool = self.pool or torch.cuda.graph_pool_handle()
            recording = self.recordings[shape] = Recording.make(self.model, self.search, shape, self.pool)
        return recording.run(source)
