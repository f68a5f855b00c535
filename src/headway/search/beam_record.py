"""What happened in a beam, step by step, for an inspector: `Beam()(model, source, on_step=Record())`."""

from __future__ import annotations

from typing import TypedDict

from headway.search.beam import BeamState
from headway.search.candidates import Candidates
from headway.text.vocabulary import EOS


class Choice(TypedDict):
    """One candidate of one step."""

    piece: int
    parent: int  # row of the beam before this step
    row: int | None  # row of the beam after it; None if it was pruned or has finished
    fate: str  # kept, finished or pruned
    score: float  # of this piece
    total: float  # of the whole text so far
    normalised: float  # total made comparable between lengths


class Record:
    """`steps[sentence][step]` is the list of candidates, the best first: plain data, ready for JSON."""

    def __init__(self) -> None:
        self.steps: dict[int, list[list[Choice]]] = {}

    def __call__(self, before: BeamState, found: Candidates, after: BeamState) -> None:
        weight = float(before.weights[before.step])
        size = after.last.size(1)
        columns = (found.tokens, found.parents, found.scores, found.totals)
        rows = zip(before.sentence.tolist(), before.done.tolist(), *(c.tolist() for c in columns), strict=True)
        for sentence, done, *candidates in rows:
            if not done:
                self.steps.setdefault(sentence, []).append(choices(candidates, size, weight))


def choices(candidates: list[list], size: int, weight: float) -> list[Choice]:
    """Build the list by the rule of the beam: ends among the first `size` finish, the first `size` others are kept."""
    made: list[Choice] = []
    kept = 0
    for place, (piece, parent, score, total) in enumerate(zip(*candidates, strict=True)):
        if total == -float("inf"):
            continue
        ends = piece == EOS
        finished, stays = ends and place < size, not ends and kept < size
        fate = "finished" if finished else "kept" if stays else "pruned"
        made.append(
            Choice(
                piece=piece,
                parent=parent,
                row=kept if stays else None,
                fate=fate,
                score=score,
                total=total,
                normalised=total * weight,
            )
        )
        kept += stays
    return made
