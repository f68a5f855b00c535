"""A beam search as a trellis: which piece followed which row. Texts are read back from it at the end.

All of it lies in one block of memory, so that a search begins and ends with one transfer, and never moves. Sentences
are worked on in lanes: a lane whose sentence is done takes the next one that waits, without a host synchronisation.

What the host does is written in NumPy, which works in one thread. PyTorch would share it out among as many OpenMP
threads as the machine has cores, and waiting for them takes longer than the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.engines.cuda.block_topk import best_continuations
from headway.search.base import Hypothesis, length_weight
from headway.search.beam import NOTHING, Beam
from headway.text.vocabulary import BOS, EOS


class Extent(NamedTuple):
    """How much a trellis holds."""

    sentences: int
    size: int  # rows to a sentence
    keep: int  # outputs to a sentence
    room: int  # steps of a sentence
    lanes: int  # sentences worked on at a time

    @property
    def opening(self) -> int:
        """Numbers of 32 bits that an opening writes."""
        b, w, k, room, lanes = self
        return 2 * b * w + 5 * b * (k + 1) + 4 + lanes + room

    @property
    def numbers(self) -> int:
        """Numbers of 32 bits in all: those of the opening and the log."""
        return self.opening + 3 * self.room * self.sentences * self.size

    @property
    def queued(self) -> bool:
        """Whether some sentences must wait for a lane."""
        return self.lanes < self.sentences


class Trellis:
    """Every step's choices, and the best outputs that ended, as places in it."""

    def __init__(self, extent: Extent, flat: Int[Tensor, "_"]) -> None:
        (b, w, k, room, lanes), self.extent, self.flat = extent, extent, flat
        self.opened = extent.opening  # what an opening writes; the log follows
        parts = self.flat.split([b * w, b * w, b, b, b, b, b, 4, b * k, 4 * b * k, lanes, room, 3 * room * b * w])
        self.last: Int[Tensor, "b w"] = parts[0].view(b, w)
        self.totals: Float[Tensor, "b w"] = real(parts[1]).view(b, w)
        self.done: Int[Tensor, "b"] = parts[2]  # 1 at sentences that need no more steps
        self.cap: Int[Tensor, "b"] = parts[3]  # steps each sentence gets
        self.reach: Float[Tensor, "b"] = real(parts[4])  # the most that length can do for a total
        self.step: Int[Tensor, "b"] = parts[5]  # pieces written
        self.count: Int[Tensor, "b"] = parts[6]  # outputs that have ended, kept or not
        self.queue: Int[Tensor, "2"] = parts[7][:2]  # sentences that are not done, and the next to get a lane
        self.ended_scores: Float[Tensor, "b k"] = real(parts[8]).view(b, k)  # minus infinity: an empty place
        self.ended: Float[Tensor, "b k 4"] = real(parts[9]).view(b, k, 4)  # total, score of the end, step, row
        self.owner: Int[Tensor, "l"] = parts[10]  # the sentence in each lane
        self.weights: Float[Tensor, "t"] = real(parts[11])  # what a total of each length is multiplied by
        self.log: Int[Tensor, "t 3 b w"] = parts[12].view(room, 3, b, w)  # pieces, parents, scores (as bits)

    @classmethod
    def empty(cls, extent: Extent, device: torch.device, pinned: bool = False) -> Trellis:
        """Buffers of zeros; `pinned` for those of the host that are sent to a CUDA device."""
        return cls(extent, torch.zeros(extent.numbers, dtype=torch.int32, device=device, pin_memory=pinned))

    @property
    def left(self) -> Int[Tensor, "1"]:
        return self.queue[:1]

    def open(self, caps: Int[Tensor, "m"], search: Beam) -> None:
        """Write empty beams, on the host; sentences beyond those with a cap are done before they begin."""
        count, room, lanes = len(caps), self.extent.room, self.extent.lanes
        weights = length_weights(room, search.alpha)
        self.flat[: self.opened].numpy().fill(0)  # no outputs, no steps
        self.weights.numpy()[:] = weights
        self.last.numpy().fill(BOS)
        totals, cap = self.totals.numpy(), self.cap.numpy()
        totals.fill(-math.inf)
        totals[:, 0] = 0.0
        self.done.numpy()[count:] = 1
        cap.fill(1)
        cap[:count] = np.minimum(caps.numpy(), room)
        self.reach.numpy()[:] = weights[cap - 1]
        self.owner.numpy()[:] = np.arange(lanes)
        self.queue.numpy()[:] = (count, lanes)
        self.ended_scores.numpy().fill(-math.inf)

    def restart(self, opening: Trellis) -> None:
        """Take over another's beginning; the steps themselves will be written anew."""
        self.flat[: self.opened].copy_(opening.flat[: self.opened], non_blocking=True)

    def copy_log(self, other: Trellis, steps: int) -> None:
        """Take over what another has, and its log of so many steps."""
        used = self.opened + min(steps, self.extent.room) * self.log.stride(0)
        self.flat[:used].copy_(other.flat[:used])

    def copy(self) -> Trellis:
        """On the host, in memory of its own."""
        return Trellis(self.extent, torch.from_numpy(self.flat.numpy().copy()))

    def advance(self, logits: Float[Tensor, "n v"], search: Beam) -> Int[Tensor, "l w"]:
        """Take one step of every lane, in place, as `Beam.next_state` does; return the row that each row continues."""
        size, at = search.size, self.owner.long()
        over, step = self.done[at] != 0, self.step[at]
        found = best_continuations(logits, self.totals[at], 2 * size)
        ends = found.tokens == EOS
        open_ends = ends[:, :size] & (found.totals[:, :size] > -torch.inf) & ~over[:, None]
        self.collect(at, found.totals[:, :size], found.scores[:, :size], found.parents[:, :size], open_ends)
        others = ends.sort(dim=1, stable=True).indices[:, :size]
        totals, scores, parents, pieces = (x.gather(1, others) for x in found)
        self.note(at, over, torch.stack([pieces.int(), parents.int(), scores.view(torch.int32)], dim=1))
        beaten = totals.amax(dim=1) * self.reach[at] <= self.ended_scores[at, -1]
        self.last[at] = pieces.int()
        self.totals[at] = torch.where(over[:, None], self.totals[at], totals)
        self.step[at] = step + (~over).int()
        done = over | beaten | (self.count[at] >= search.enough) | (step + 1 >= self.cap[at])
        self.done[at] = done.int()
        self.hand_on(done & ~over)
        return parents

    def collect(
        self,
        at: Int[Tensor, "l"],
        totals: Float[Tensor, "l w"],
        scores: Float[Tensor, "l w"],
        parents: Int[Tensor, "l w"],
        ends: Bool[Tensor, "l w"],
    ) -> None:
        """Outputs that end compete with those kept."""
        step = self.step[at].clamp(max=self.extent.room - 1)[:, None]
        normal = (totals * self.weights[step]).masked_fill(~ends, -torch.inf)
        places = torch.stack([totals, scores, step.expand_as(parents).to(totals), parents.to(totals)], dim=-1)
        kept, index = torch.cat([self.ended_scores[at], normal], dim=1).topk(self.extent.keep, dim=1)
        both = torch.cat([self.ended[at], places], dim=1)
        self.ended_scores[at] = kept
        self.ended[at] = both.gather(1, index[..., None].expand(-1, -1, 4))
        self.count[at] += ends.sum(dim=1).int()

    def note(self, at: Int[Tensor, "l"], over: Bool[Tensor, "l"], line: Int[Tensor, "l 3 w"]) -> None:
        """Each sentence has a clock of its own; of one that is done nothing is noted."""
        when = self.step[at].clamp(max=self.extent.room - 1).long()
        self.log[when, :, at] = torch.where(over[:, None, None], self.log[when, :, at], line)

    def hand_on(self, free: Bool[Tensor, "l"]) -> None:
        """Lanes whose sentence has just been done go to those that wait, in their order."""
        following = self.queue[1] + free.cumsum(dim=0) - 1
        self.owner.copy_(torch.where(free & (following < self.extent.sentences), following, self.owner))
        count = free.sum()
        self.queue.add_(torch.stack([-count, count]))

    # ------------------------------------------------------------ reading back, on the host

    def hypotheses(self, count: int) -> list[list[Hypothesis]]:
        """The outputs of the first `count` sentences; where too few have ended, rows that the cap has cut."""
        chosen = self.outputs(count)
        longest = int(chosen.lengths.max())
        log = self.log[:longest, :, :count].numpy()
        path = walk(log[:, 1], chosen.lengths, chosen.rows)
        when, who = np.arange(longest)[:, None, None], np.arange(count)[:, None]
        ids = log[:, 0][when, who, path].transpose(1, 2, 0)
        scores = np.zeros((*chosen.rows.shape, longest + 1), dtype=np.float32)
        scores[..., :longest] = log[:, 2].view(np.float32)[when, who, path].transpose(1, 2, 0)
        np.put_along_axis(scores, chosen.lengths[..., None], chosen.ends[..., None], axis=2)
        columns = (ids, chosen.scores, chosen.totals, scores, chosen.lengths, chosen.finished)
        return [
            list(lines(*of_one)) or [NOTHING] for of_one in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def outputs(self, count: int) -> Outputs:
        """First those that ended, the best first, then the best rows that did not."""
        kept, ended = self.ended_scores[:count].numpy(), self.ended[:count].numpy()
        finished = kept > -np.inf
        totals = self.totals[:count].numpy()
        place = np.arange(kept.shape[1]) - finished.sum(axis=1, keepdims=True)  # among the rows that did not end
        cut = np.take_along_axis(np.argsort(-totals, axis=1, kind="stable"), place.clip(0), axis=1)
        cut_totals = np.take_along_axis(totals, cut, axis=1)
        cut_lengths = self.step[:count].numpy()[:, None]
        cut_scores = cut_totals * self.weights.numpy()[cut_lengths - 1]
        return Outputs(
            scores=np.where(finished, kept, cut_scores),
            totals=np.where(finished, ended[..., 0], cut_totals),
            ends=ended[..., 1],
            lengths=np.where(finished, ended[..., 2].astype(np.int64), cut_lengths),
            rows=np.where(finished, ended[..., 3].astype(np.int64), cut),
            finished=finished,
        )


class Outputs(NamedTuple):
    """Which rows are given back, [sentences outputs] each."""

    scores: np.ndarray
    totals: np.ndarray  # minus infinity: no output
    ends: np.ndarray  # scores of the ends
    lengths: np.ndarray
    rows: np.ndarray  # where the last piece stands
    finished: np.ndarray


@cache
def length_weights(room: int, alpha: float) -> Float[np.ndarray, "t"]:
    return np.array([length_weight(length, alpha) for length in range(1, room + 1)], np.float32)


def real(numbers: Int[Tensor, "_"]) -> Float[Tensor, "_"]:
    return numbers.view(torch.float32)


def walk(parents: np.ndarray, lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """From the last pieces back to the first: the row at every step."""
    path = np.zeros((len(parents), *rows.shape), dtype=np.int64)
    if parents.shape[-1] == 1:
        return path
    who = np.arange(len(rows))[:, None]
    for t in range(len(parents) - 1, -1, -1):
        path[t] = rows
        rows = np.where(t < lengths, parents[t, who, rows], rows)
    return path


def lines(
    ids: list[list[int]],
    scores: list[float],
    totals: list[float],
    parts: list[list[float]],
    lengths: list[int],
    finished: list[bool],
) -> Iterator[Hypothesis]:
    for text, score, total, of_pieces, n, ends in zip(ids, scores, totals, parts, lengths, finished, strict=True):
        if total > -math.inf:
            yield Hypothesis(text[:n], score, total, of_pieces[: n + ends], ends)
