"""How long an output may be, measured by its own source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from headway.search.logits_processors import LogitsProcessor, MinLength
from headway.text.vocabulary import PAD


@dataclass(frozen=True)
class Limits:
    """A runaway is cut here and flagged; the rest of its batch has limits of its own."""

    section: ClassVar[bool] = True

    ratio: float = 2.0  # longest output, in lengths of its source ...
    extra: int = 20  # ... plus this many tokens
    longest: int = 512  # and never longer than this, the end included
    shortest: int = 0  # fewest tokens before the end ...
    shortest_ratio: float = 0.0  # ... and fewest in lengths of the source

    def __post_init__(self) -> None:
        if not 1 <= self.longest <= 100_000:
            raise ValueError(f"longest is {self.longest}; it must be from 1 to 100000")
        for name in ("ratio", "extra", "shortest", "shortest_ratio"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if self.shortest >= self.longest:
            raise ValueError(f"shortest is {self.shortest}; it must be less than longest, {self.longest}")

    @property
    def has_minimum(self) -> bool:
        """Whether an output may not end at once."""
        return self.shortest > 0 or self.shortest_ratio > 0

    def caps(self, source: Int[Tensor, "b s"]) -> Int[Tensor, "b"]:
        """The most steps each sentence gets, its end included."""
        return self.caps_of((source != PAD).sum(dim=1))

    def caps_of(self, length: Int[Tensor, "b"]) -> Int[Tensor, "b"]:
        """The same by the lengths of the sources."""
        return (length * self.ratio + self.extra).long().clamp(min=1, max=self.longest)

    def logits_processors(self, source: Int[Tensor, "b s"]) -> tuple[LogitsProcessor, ...]:
        """What keeps an output from ending too early; nothing if it may end at once."""
        if not self.has_minimum:
            return ()
        length = (source != PAD).sum(dim=1)
        fewest = (length * self.shortest_ratio).long().clamp(min=self.shortest)
        return (MinLength(fewest.minimum(self.caps(source) - 1)),)
