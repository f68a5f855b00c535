"""How long an output may be, measured by its own source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from headway.search.logits_processors import Shape, Shortest
from headway.text.vocabulary import PAD


@dataclass(frozen=True)
class Limits:
    """Length limits of an output. One that reaches the maximum is cut and flagged; every row has its own limits."""

    section: ClassVar[bool] = True

    ratio: float = 2.0  # maximum output length is ratio times the source length plus extra, and at most longest
    extra: int = 20  # tokens added to the maximum output length
    longest: int = 512  # maximum output length in tokens, the end token included
    shortest: int = 0  # minimum output length in tokens, without the end token
    shortest_ratio: float = 0.0  # minimum output length, as a ratio of the source length

    def __post_init__(self) -> None:
        if not 1 <= self.longest <= 100_000:
            raise ValueError(f"longest is {self.longest}; it must be from 1 to 100000")
        for name in ("ratio", "extra", "shortest", "shortest_ratio"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if self.shortest >= self.longest:
            raise ValueError(f"shortest is {self.shortest}; it must be less than longest, {self.longest}")

    def caps(self, source: Int[Tensor, "b s"]) -> Int[Tensor, "b"]:
        """The most steps each sentence gets, its end included."""
        length = (source != PAD).sum(dim=1)
        return (length * self.ratio + self.extra).long().clamp(min=1, max=self.longest)

    def shapes(self, source: Int[Tensor, "b s"]) -> tuple[Shape, ...]:
        """What keeps an output from ending too early; nothing if it may end at once."""
        if not self.shortest and not self.shortest_ratio:
            return ()
        length = (source != PAD).sum(dim=1)
        fewest = (length * self.shortest_ratio).long().clamp(min=self.shortest)
        return (Shortest(fewest.minimum(self.caps(source) - 1)),)
