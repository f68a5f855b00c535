"""Draw outputs at random, as likely as the model finds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.model.inputs import SourceBatch
from headway.search.base import Hypothesis, Stepper, check_alpha
from headway.search.independent_rows import Choice, ending, write_lines
from headway.search.limits import Limits
from headway.search.logits_processors import Shape
from headway.search.loop import Draft, Shaping

Scores = Float[Tensor, "n v"]


@dataclass(frozen=True)
class Sample:
    """Ancestral sampling; temperature, top_k and nucleus narrow it. Scores stay those of the model itself."""

    kind: Literal["sample"] = "sample"
    count: int = 1  # samples of each source
    temperature: float = 1.0  # below 1: likely pieces become likelier
    top_k: int = 0  # draw from this many likeliest pieces, 0: from all
    nucleus: float = 1.0  # draw from the fewest pieces that hold this much probability (Holtzman et al. 2020)
    least: float = 0.0  # draw only from pieces at least so likely, or the likeliest (Hewitt et al. 2022)
    seed: int = 0  # the same seed and batch give the same samples
    alpha: float = 0.6  # how much scores favour long outputs, 0: not at all
    limits: Limits = Limits()  # how long an output may be

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if self.count < 1:
            raise ValueError(f"count is {self.count}; it must be at least 1")
        if not self.temperature > 0:
            raise ValueError(f"temperature is {self.temperature}; it must be more than 0 (use greedy instead of 0)")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}; it must not be negative")
        if not 0 < self.nucleus <= 1:
            raise ValueError(f"nucleus is {self.nucleus}; it must be more than 0 and at most 1")
        if not 0 <= self.least < 1:
            raise ValueError(f"least is {self.least}; it must be at least 0 and less than 1")

    @torch.inference_mode()
    def __call__(self, model: Stepper, source: SourceBatch, shapes: Sequence[Shape] = ()) -> list[list[Hypothesis]]:
        if not len(source):
            return []
        opening = Draft.opening(source, self.limits, self.count, self.alpha)
        generator = torch.Generator(source.device).manual_seed(self.seed)
        every_shape = (*self.limits.shapes(source), *shapes)
        return write_lines(model, source, opening, self.drawing(generator), every_shape)

    def drawing(self, generator: torch.Generator) -> Choice:
        def choose(scores: Scores, shape: Shaping) -> tuple[Float[Tensor, "n"], Int[Tensor, "n"]]:
            shaped = self.narrow(shape(scores.clone()) / self.temperature)
            piece = draw(shaped, generator)
            possible, score = (x.gather(1, piece[:, None])[:, 0] for x in (shaped, scores))
            return score.masked_fill(possible == -torch.inf, -torch.inf), ending(piece, possible)

        return choose

    def narrow(self, scores: Scores) -> Scores:
        if 0 < self.top_k < scores.size(1):
            lowest = scores.topk(self.top_k, dim=1).values[:, -1:]
            scores = scores.masked_fill(scores < lowest, -torch.inf)
        if self.least:
            floor = scores.logsumexp(dim=1, keepdim=True) + math.log(self.least)
            scores = scores.masked_fill(scores < floor.minimum(scores.amax(dim=1, keepdim=True)), -torch.inf)
        return scores if self.nucleus == 1 else keep_nucleus(scores, self.nucleus)


def keep_nucleus(scores: Scores, mass: float) -> Scores:
    """Only the likeliest pieces, as many as are needed to hold `mass`; always at least one."""
    ordered, places = scores.softmax(dim=1).sort(dim=1, descending=True)
    before = ordered.cumsum(dim=1) - ordered
    outside = torch.empty_like(before, dtype=torch.bool).scatter_(1, places, before >= mass)
    return scores.masked_fill(outside, -torch.inf)


def draw(scores: Scores, generator: torch.Generator) -> Int[Tensor, "n"]:
    """Gumbel's trick: the largest of scores plus noise falls to each piece with its own probability."""
    noise = torch.empty_like(scores).exponential_(generator=generator).clamp_(min=1e-30).log_()
    return (scores - noise).argmax(dim=1)
