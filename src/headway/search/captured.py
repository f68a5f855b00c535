"""Beam search on CUDA as recorded graphs: a step, model and choice, is one launch, and nothing waits for the host.

Batches are padded to a few shapes; each shape is recorded once and replayed for every batch that fits it. A step
writes only which piece followed which row; texts are read back from that at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.models import EncoderDecoder, Rows
from headway.parts.states import Fixed, Indexed
from headway.search.base import Hypothesis, length_weight
from headway.search.beam import Beam
from headway.search.blocks import best_continuations
from headway.search.limits import Limits
from headway.search.writing import flat
from headway.text.vocabulary import BOS, EOS, PAD

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MOST_SLOTS = 128  # longer outputs move their keys
LOOK_EVERY = 6  # steps between two looks at the device
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


@dataclass
class Trellis:
    """Every step's choices, and the best outputs that ended, as places in it. Tensors that never move."""

    pieces: Int[Tensor, "t b w"]
    parents: Int[Tensor, "t b w"]
    scores: Float[Tensor, "t b w"]
    last: Int[Tensor, "b w"]
    totals: Float[Tensor, "b w"]
    done: Bool[Tensor, "b"]
    cap: Int[Tensor, "b"]
    reach: Float[Tensor, "b"]
    step: Int[Tensor, "1"]
    weights: Float[Tensor, "t"]
    ended_scores: Float[Tensor, "b k"]  # made comparable between lengths; minus infinity: an empty place
    ended: Float[Tensor, "b k 4"]  # total, score of the end, step, row

    @classmethod
    def opening(cls, source: Int[Tensor, "b s"], search: Beam, room: int) -> Trellis:
        device, (b, w) = source.device, (len(source), search.size)
        cap = search.limits.caps(source).clamp(max=room)
        weights = torch.tensor([length_weight(length, search.alpha) for length in range(1, room + 1)], device=device)
        totals = torch.full((b, w), -torch.inf, device=device)
        totals[:, 0] = 0.0
        return cls(
            pieces=torch.zeros(room, b, w, dtype=torch.long, device=device),
            parents=torch.zeros(room, b, w, dtype=torch.long, device=device),
            scores=torch.zeros(room, b, w, device=device),
            last=torch.full((b, w), BOS, device=device),
            totals=totals,
            done=torch.zeros(b, dtype=torch.bool, device=device),
            cap=cap,
            reach=weights.index_select(0, cap - 1),
            step=torch.zeros(1, dtype=torch.long, device=device),
            weights=weights,
            ended_scores=torch.full((b, search.n_best), -torch.inf, device=device),
            ended=torch.zeros(b, search.n_best, 4, device=device),
        )

    def restart(self, opening: Trellis) -> None:
        """Take over another's beginning; the steps themselves will be written anew."""
        for f in fields(self):
            if f.name not in ("pieces", "parents", "scores"):
                getattr(self, f.name).copy_(getattr(opening, f.name))

    def advance(self, logits: Float[Tensor, "n v"], search: Beam) -> Int[Tensor, "b w"]:
        """One step, in place; the row that each row now continues. The same rules as `Beam.settle`."""
        size = search.size
        found = best_continuations(logits, self.totals, 2 * size)
        ends = found.pieces == EOS
        self.collect(found.totals[:, :size], found.scores[:, :size], found.parents[:, :size], ends[:, :size])
        others = ends.sort(dim=1, stable=True).indices[:, :size]
        totals, scores, parents, pieces = (x.gather(1, others) for x in found)
        for whole, part in ((self.pieces, pieces), (self.parents, parents), (self.scores, scores)):
            whole.index_copy_(0, self.step, part[None])
        self.step.add_(1)
        beaten = totals.amax(dim=1) * self.reach <= self.ended_scores[:, -1]
        self.last.copy_(pieces)
        self.totals.copy_(totals)
        self.done.logical_or_(beaten | (self.step >= self.cap))
        return parents

    def collect(
        self,
        totals: Float[Tensor, "b w"],
        scores: Float[Tensor, "b w"],
        parents: Int[Tensor, "b w"],
        ends: Bool[Tensor, "b w"],
    ) -> None:
        """Outputs that end compete with those kept; sentences that are done keep what they have."""
        open_ends = ends & ~self.done[:, None]
        normal = (totals * self.weights.index_select(0, self.step)).masked_fill(~open_ends, -torch.inf)
        places = torch.stack([totals, scores, self.step.expand_as(parents).to(totals), parents.to(totals)], dim=-1)
        kept, index = torch.cat([self.ended_scores, normal], dim=1).topk(self.ended_scores.size(1), dim=1)
        both = torch.cat([self.ended, places], dim=1)
        self.ended_scores.copy_(kept)
        self.ended.copy_(both.gather(1, index[..., None].expand(-1, -1, 4)))

    # ------------------------------------------------------------ reading back

    def hypotheses(self, count: int) -> list[list[Hypothesis]]:
        """The outputs of the first `count` sentences; where too few have ended, rows that the cap has cut."""
        longest = int(self.step)
        tables = [t[:longest, :count].cpu().numpy() for t in (self.pieces, self.parents, self.scores)]
        scores, ended = self.ended_scores[:count].cpu().numpy(), self.ended[:count].cpu().numpy()
        steps, rows = ended[..., 2].astype(np.int64), ended[..., 3].astype(np.int64)
        texts = walk(tables, steps, rows)
        found = [
            [
                Hypothesis(ids, float(scores[i, j]), float(ended[i, j, 0]), [*parts, float(ended[i, j, 1])], True)
                for j, (ids, parts) in enumerate(of_one)
                if scores[i, j] > -np.inf
            ]
            for i, of_one in enumerate(texts)
        ]
        missing = [i for i, one in enumerate(found) if len(one) < scores.shape[1]]
        return self.with_cut(found, missing, tables) if missing else found

    def with_cut(
        self, found: list[list[Hypothesis]], missing: list[int], tables: list[np.ndarray]
    ) -> list[list[Hypothesis]]:
        keep = self.ended_scores.size(1)
        totals, caps = self.totals.cpu().numpy(), self.cap.cpu().numpy()
        chosen = np.array(missing)
        size = totals.shape[1]
        lengths = np.repeat(np.minimum(caps[chosen], len(tables[0]))[:, None], size, axis=1)
        rows = np.repeat(np.arange(size)[None], len(chosen), axis=0)
        weights = self.weights.tolist()
        for i, of_one in zip(missing, walk([t[:, chosen] for t in tables], lengths, rows), strict=True):
            cut = [
                Hypothesis(ids, sum(parts) * weights[len(ids) - 1], sum(parts), parts, False)
                for j, (ids, parts) in enumerate(of_one)
                if ids and totals[i, j] > -np.inf
            ]
            found[i] = (found[i] + sorted(cut, key=lambda one: -one.score))[:keep]
        return found


def walk(tables: list[np.ndarray], lengths: np.ndarray, rows: np.ndarray) -> list[list[tuple[list[int], list[float]]]]:
    """From places in the trellis back to the beginning: ids and scores of `lengths` pieces that end in `rows`."""
    pieces, parents, scores = tables
    sentences, many = rows.shape
    longest = len(pieces)
    ids, parts = np.zeros((sentences, many, longest), dtype=np.int64), np.zeros((sentences, many, longest))
    here, row = np.arange(sentences)[:, None], rows.copy()
    for t in range(longest - 1, -1, -1):
        inside = t < lengths
        ids[:, :, t], parts[:, :, t] = pieces[t, here, row], scores[t, here, row]
        row = np.where(inside, parents[t, here, row], row)
    return [
        [(i[:n].tolist(), p[:n].tolist()) for i, p, n in zip(ids[b], parts[b], lengths[b], strict=True)]
        for b in range(sentences)
    ]


@runtime_checkable
class Graph(Protocol):
    """Something that can be done again."""

    def replay(self) -> None: ...


@dataclass
class Recording:
    """One shape: the tensors it lives in, and two graphs, one that reads a source and one that writes a piece."""

    model: EncoderDecoder
    search: Beam
    shape: Shape
    source: Int[Tensor, "b s"]
    trellis: Trellis
    rows: Rows | None = None
    reading: Graph | None = None
    writing: Graph | None = None

    @classmethod
    def make(cls, model: EncoderDecoder, search: Beam, shape: Shape) -> Recording:
        source = torch.full((shape.sentences, shape.source), PAD, device=model.head.weight.device)
        source[:, 0] = EOS
        return cls(model, search, shape, source, Trellis.opening(source, search, shape.target))

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

    def room(self) -> partial[Fixed]:
        half = self.model.head.weight.dtype != torch.float32
        indexed = half and self.search.size > 1 and self.shape.target <= MOST_SLOTS
        return partial(Indexed if indexed else Fixed, self.shape.target)

    def read(self) -> None:
        """Encode, and write the first piece: this makes the buffers that later steps fill."""
        self.rows = self.model.start(self.source, self.room())
        self.rows.pos = self.rows.pos.clone()
        self.step(self.rows)

    def write(self) -> None:
        assert self.rows is not None
        pos = self.rows.pos
        self.step(self.rows)
        self.rows.pos = pos.copy_(self.rows.pos)

    def step(self, rows: Rows) -> None:
        parents = self.trellis.advance(self.model.step(self.trellis.last.flatten(), rows), self.search)
        if self.search.size > 1:
            rows.reorder(flat(parents, self.search.size))

    def run(self, source: Int[Tensor, "b s"]) -> list[list[Hypothesis]]:
        count, width = source.shape
        self.source.fill_(PAD)
        self.source[count:, 0] = EOS
        self.source[:count, :width] = source
        opening = Trellis.opening(self.source, self.search, self.shape.target)
        opening.done[count:] = True
        self.trellis.restart(opening)
        assert self.reading is not None and self.writing is not None
        self.reading.replay()
        for step in range(1, int(opening.cap[:count].max())):
            if step % LOOK_EVERY == 0 and bool(self.trellis.done.all()):
                break
            self.writing.replay()
        return self.trellis.hypotheses(count)


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
        if shape not in self.recordings:
            self.recordings[shape] = self.recorded(shape)
        return self.recordings[shape].run(source)

    def recorded(self, shape: Shape) -> Recording:
        if len(self.recordings) >= self.most:  # forget the oldest: shapes of odd inputs must not pile up
            self.recordings.pop(next(iter(self.recordings)))
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        recording = Recording.make(self.model, self.search, shape)
        recording.record(self.pool)
        return recording
