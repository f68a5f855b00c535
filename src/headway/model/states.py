"""What attention remembers between steps. The caller holds it; modules hold nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from headway.model.mask import Mask


class Keys(NamedTuple):
    """Keys, values and where they stand."""

    k: Float[Tensor, "b g k e"]
    v: Float[Tensor, "b g k e"]
    pos: Int[Tensor, "#b k"]

    def select(self, rows: Int[Tensor, "n"]) -> Keys:
        """Of these batch rows; positions that all share stay as they are."""
        pos = self.pos if len(self.pos) == 1 else self.pos.index_select(0, rows)
        return Keys(self.k.index_select(0, rows), self.v.index_select(0, rows), pos)


class State:
    """Remembers nothing: training, encoding, scoring."""

    step_mask: ClassVar[Mask] = Mask(causal=True)  # what the newest token may see of what `read` returns

    def read(self, project: Callable[[], Keys]) -> Keys:
        """All keys and values so far, the new ones included."""
        return project()

    def add(self, sums: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Remember sums for later steps and return those of earlier steps (linear attention)."""
        return None

    def select(self, rows: Int[Tensor, "n"]) -> None:
        """Keep these batch rows: repeats them for a beam, reorders it, or drops finished sentences."""


NOTHING = State()  # one is enough: it remembers nothing


class Growing(State):
    """Self-attention while decoding: every step adds its keys to a buffer that doubles when it is full."""

    step_mask: ClassVar[Mask] = Mask()  # all that is held lies in the past

    def __init__(self) -> None:
        self.held: Keys | None = None
        self.used = 0

    def read(self, project: Callable[[], Keys]) -> Keys:
        new = project()
        start, self.used = self.used, self.used + new.k.size(2)
        if self.held is None or self.used > self.held.k.size(2):
            self.held = self.roomier(new)
        for whole, part in zip(self.held, new, strict=True):
            whole.narrow(-2 if whole.dim() == 4 else -1, start, self.used - start).copy_(part)
        return Keys(self.held.k[:, :, : self.used], self.held.v[:, :, : self.used], self.held.pos[:, : self.used])

    def roomier(self, new: Keys) -> Keys:
        room = max(16, 2 * self.used)
        rows, groups, _, width = new.k.shape
        fresh = Keys(
            new.k.new_empty(rows, groups, room, width),
            new.v.new_empty(rows, groups, room, width),
            new.pos.new_empty(new.pos.size(0), room),
        )
        if self.held is not None:
            length = self.held.k.size(2)
            fresh.k[:, :, :length] = self.held.k
            fresh.v[:, :, :length] = self.held.v
            fresh.pos[:, :length] = self.held.pos
        return fresh

    def select(self, rows: Int[Tensor, "n"]) -> None:
        self.held = self.held and self.held.select(rows)


class Once(State):
    """Cross-attention while decoding: the source is projected one time."""

    step_mask: ClassVar[Mask] = Mask()

    def __init__(self) -> None:
        self.held: Keys | None = None

    def read(self, project: Callable[[], Keys]) -> Keys:
        if self.held is None:
            self.held = project()
        return self.held

    def select(self, rows: Int[Tensor, "n"]) -> None:
        self.held = self.held and self.held.select(rows)


class Sums(State):
    """Linear attention while decoding: running sums, whatever the length, in tensors that a captured step can find."""

    def __init__(self) -> None:
        self.held: tuple[Tensor, ...] | None = None

    def add(self, sums: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if self.held is None:
            self.held = sums
            return None
        earlier = tuple(held.clone() for held in self.held)
        for held, new in zip(self.held, sums, strict=True):
            held.add_(new)
        return earlier

    def select(self, rows: Int[Tensor, "n"]) -> None:
        if self.held is None:
            return
        chosen = tuple(held.index_select(0, rows) for held in self.held)
        if len(chosen[0]) != len(self.held[0]):
            self.held = chosen
            return
        for held, new in zip(self.held, chosen, strict=True):
            held.copy_(new)
