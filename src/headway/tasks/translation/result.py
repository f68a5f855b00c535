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
    lost: list[str] = field(default_factory=list)  # spans of the source that were to be kept and are not in the text

    @property
    def confidence(self) -> float:
        """The mean probability of a piece (geometric); 0 for runaways and loops."""
        if not self.finished or self.looping:
            return 0.0
        if not self.token_scores:
            return 1.0
        return math.exp(sum(self.token_scores) / len(self.token_scores))

    def ranked(self, place: int) -> Translation:
        """One of the alternatives; the last, or this one, where there are not so many."""
        return [self, *self.alternatives][: place + 2][-1]

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from headway.tasks.translation.snippet import snippet

        return snippet(self)


def joined(source: str, parts: list[Translation], gaps: list[str]) -> Translation:
    """The translations of a paragraph's sentences as one; the second best is made of all the second best, and so on."""
    if len(parts) == 1:
        return parts[0]
    alignment, read, text = [], "", ""
    for part, gap in zip(parts, gaps, strict=True):
        before = words_before(read), words_before(text)
        alignment += [(before[0] + one, before[1] + other) for one, other in part.alignment]
        read, text = read + part.source + gap, text + part.text + gap
    ranks = range(max((len(part.alternatives) for part in parts), default=0))
    return Translation(
        text=text,
        source=source,
        score=sum(part.score for part in parts) / len(parts),
        tokens=[token for part in parts for token in part.tokens],
        token_scores=[score for part in parts for score in part.token_scores],
        alternatives=[joined(source, [part.ranked(rank) for part in parts], gaps) for rank in ranks],
        alignment=alignment,
        finished=all(part.finished for part in parts),
        looping=any(part.looping for part in parts),
    )


def words_before(text: str) -> int:
    """The number of the word that begins after this text, or goes on with its last word."""
    return len(text.split()) - (text[-1:] != "" and not text[-1:].isspace())
