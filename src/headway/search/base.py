"""What every search shares: the model as it sees it, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from headway.model.inputs import SourceBatch
from headway.search.logits_processors import Shape

LONGEST_LOOP, LOOP_TIMES = 10, 4  # up to ten pieces said four times in a row


class Hypothesis(NamedTuple):
    """One output. Scores are natural logarithms under the model's own distribution."""

    ids: list[int]  # without beginning and end
    score: float  # total, made comparable between lengths
    total: float  # log-probability of all pieces and the end
    token_scores: list[float]  # one for each piece, and one for the end if there is one
    finished: bool  # False: cut by the length cap

    @property
    def looping(self) -> bool:
        """True if some pieces are said over and over."""
        return loops(self.ids)


def loops(ids: Sequence[int], times: int = LOOP_TIMES, longest: int = LONGEST_LOOP) -> bool:
    """True if up to `longest` pieces stand at least `times` times in a row."""
    for period in range(1, min(longest, len(ids) // times) + 1):
        needed, run = period * (times - 1), 0
        for here, before in zip(ids[period:], ids, strict=False):
            run = run + 1 if here == before else 0
            if run >= needed:
                return True
    return False


def length_weight(length: int, alpha: float) -> float:
    """What a total is multiplied by: the inverse of ((5 + length) / 6) ^ alpha (Wu et al. 2016, equation 14)."""
    return ((5 + length) / 6) ** -alpha


def check_alpha(alpha: float) -> None:
    if not 0 <= alpha <= 10:
        raise ValueError(f"alpha is {alpha}; it must be from 0 to 10, usually 0.6 to 1")


@runtime_checkable
class Rows(Protocol):
    """Hypotheses being written, as the model remembers them; several may belong to one sentence."""

    def reorder(self, rows: Int[Tensor, "n"]) -> None:
        """Row i goes on from what row rows[i] was; each sentence's rows stay together."""
        ...

    def keep(self, sentences: Int[Tensor, "m"], beam: int) -> None:
        """Drop the other sentences, with all their rows."""
        ...


@runtime_checkable
class Stepper(Protocol):
    """A model as search sees it."""

    def start(self, source: Any, /) -> Any:
        """Read the source, a `SourceBatch` that the model knows, and return the `Rows` of empty outputs."""
        ...

    def step(self, last: Int[Tensor, "n"], rows: Any, /) -> Float[Tensor, "n v"]:
        """Unnormalised scores of the next piece after each row's last one, in a tensor that search may overwrite."""
        ...


@runtime_checkable
class Search(Protocol):
    """Sources in; for each its hypotheses, the best first. Greedy, Beam, Sample and Constrained are searches."""

    def __call__(self, model: Stepper, source: SourceBatch, shapes: Sequence[Shape] = ()) -> list[list[Hypothesis]]: ...
