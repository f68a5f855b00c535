"""What attention remembers in a step that is captured as a CUDA graph: keys and values in buffers that never move."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from headway.model.mask import Mask
from headway.model.states import Keys, State


class Fixed(State):
    """`Growing` in buffers of one size, in which the key of position i stands in slot i, each row at its own position.

    So one decoding step can be captured as a CUDA graph, and a finished row given to another sentence.
    """

    step_mask: ClassVar[Mask] = Mask(causal=True)  # slots that are not yet written lie in the future

    def __init__(self, room: int) -> None:
        self.room = room
        self.held: Keys | None = None

    def read(self, project: Callable[[], Keys]) -> Keys:
        new = project()
        if self.held is None:
            rows, groups, _, width = new.k.shape
            k, v = (x.new_zeros(rows, groups, self.room, width) for x in (new.k, new.v))
            self.held = Keys(k, v, torch.arange(self.room, device=k.device)[None])
        where = new.pos.expand(new.k.size(0), -1)[:, None, :, None].expand_as(new.k)
        self.held.k.scatter_(2, where, new.k)
        self.held.v.scatter_(2, where, new.v)
        return self.held

    def select(self, rows: Int[Tensor, "n"]) -> None:
        if self.held is None:
            return
        k, v = self.held.k.index_select(0, rows), self.held.v.index_select(0, rows)
        if k.shape == self.held.k.shape:
            self.held.k.copy_(k)
            self.held.v.copy_(v)
        else:
            self.held = Keys(k, v, self.held.pos)


class Indexed(Fixed):
    """Hypotheses change places by an index of which row wrote which slot, not by moving keys: see `IndexedKernel`."""

    origin: Int[Tensor, "n room"]

    def read(self, project: Callable[[], Keys]) -> Keys:
        new = project()
        rows = torch.arange(len(new.k), device=new.k.device)[:, None]
        if self.held is None:
            self.origin = rows.repeat(1, self.room)
        held = super().read(lambda: new)
        self.origin.scatter_(1, new.pos.expand(len(rows), -1), rows.expand(-1, new.pos.size(1)))
        return held

    def select(self, rows: Int[Tensor, "n"]) -> None:
        self.origin.copy_(self.origin.index_select(0, rows))
