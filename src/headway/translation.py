"""What a translator gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Translation:
    """A text and how it came about. Scores are natural logarithms."""

    text: str
    source: str = ""
    score: float = 0.0  # log-probability, made comparable between lengths
    tokens: list[str] = field(default_factory=list)  # pieces of the text, the end left out
    token_scores: list[float] = field(default_factory=list)  # of each piece, and of the end
    alternatives: list[Translation] = field(default_factory=list)  # other texts, the best first
    alignment: list[tuple[int, int]] = field(default_factory=list)  # source word - target word
    finished: bool = True  # False: cut by the length limit
    looping: bool = False  # True: some pieces are said over and over

    @property
    def confidence(self) -> float:
        """The mean probability of a piece (geometric); 0 for runaways and loops."""
        if not self.finished or self.looping:
            return 0.0
        if not self.token_scores:
            return 1.0
        return math.exp(sum(self.token_scores) / len(self.token_scores))

    def __str__(self) -> str:
        return self.text


def joined(source: str, parts: list[Translation], gaps: list[str]) -> Translation:
    """The translations of a paragraph's sentences as one; alternatives and alignments only where there is one part."""
    if len(parts) == 1:
        return parts[0]
    scores = [score for part in parts for score in part.token_scores]
    return Translation(
        text="".join(part.text + gap for part, gap in zip(parts, gaps, strict=True)),
        source=source,
        score=sum(part.score for part in parts) / len(parts),
        tokens=[token for part in parts for token in part.tokens],
        token_scores=scores,
        finished=all(part.finished for part in parts),
        looping=any(part.looping for part in parts),
    )
