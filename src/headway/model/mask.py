"""Who may look at whom."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Mask:
    """Structured, so that each kernel can choose its own fast path. True means "may be seen".

    `causal` compares positions, not indices: caches and the memory of Transformer-XL need no special case.
    """

    keys: Bool[Tensor, "b k"] | None = None  # True at real tokens
    causal: bool = False
    q_pos: Int[Tensor, "#b q"] | None = None
    k_pos: Int[Tensor, "#b k"] | None = None

    def at(self, q_pos: Int[Tensor, "#b q"], k_pos: Int[Tensor, "#b k"]) -> Mask:
        """The same rule at given places."""
        return replace(self, q_pos=q_pos, k_pos=k_pos)

    def select(self, rows: Int[Tensor, "n"]) -> Mask:
        """The same rule for these rows of the batch."""
        return self if self.keys is None else replace(self, keys=self.keys[rows])

    @property
    def plainly_causal(self) -> bool:
        """Queries and keys are the same tokens and only the future is hidden: flash kernels know this case."""
        return self.causal and self.keys is None and self.q_pos is self.k_pos

    def dense(self) -> Bool[Tensor, "#b 1 #q k"] | None:
        """The rule as a matrix, or None if everything may be seen."""
        seen = None
        if self.causal and self.q_pos is not None and self.k_pos is not None:
            seen = (self.k_pos[:, None, :] <= self.q_pos[:, :, None])[:, None]
        if self.keys is not None:
            keys = self.keys[:, None, None, :]
            seen = keys if seen is None else seen & keys
        return seen
