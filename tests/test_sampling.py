"""Samples come as often as the model says they should."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.search import Limits, Sample
from headway.text.vocabulary import EOS
from small_steppers import sources, tiny_model


def frequencies(search: Sample, logits: Tensor) -> tuple[Tensor, Tensor]:
    """How often each piece came, and how often it should have come under the model's own distribution."""

    class Constant:
        def start(self, source: Tensor) -> Any:
            return None

        def step(self, last: Tensor, rows: Any) -> Tensor:
            return logits.repeat(len(last), 1)

    found = search(Constant(), torch.tensor([[5, EOS]]))[0]
    drawn = [one.ids[0] if one.ids else EOS for one in found]
    for one, piece in zip(found[:100], drawn, strict=False):
        assert one.total == pytest.approx(logits.log_softmax(0)[piece].item(), abs=1e-5)
    return torch.bincount(torch.tensor(drawn), minlength=len(logits)).double(), logits.double()


def assert_drawn_from(counts: Tensor, probabilities: Tensor) -> None:
    """Pearson's chi-square; the chance of failing by bad luck is below one in ten thousand, and the seed is fixed."""
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    expected = probabilities[possible] * counts.sum()
    statistic = ((counts[possible] - expected) ** 2 / expected).sum().item()
    freedom = int(possible.sum()) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom) + 8


@pytest.mark.parametrize(
    ("settings", "narrow"),
    [
        ({}, lambda p: p),
        ({"temperature": 0.5}, lambda p: p**2),
        ({"top_k": 3}, lambda p: torch.where(p >= p.sort().values[-3], p, 0.0)),
        ({"nucleus": 0.7}, lambda p: torch.where(p >= smallest_of_nucleus(p, 0.7), p, 0.0)),
        ({"least": 0.1}, lambda p: torch.where(p >= 0.1, p, 0.0)),
        ({"least": 0.9}, lambda p: torch.where(p == p.max(), 1.0, 0.0)),
        ({"nucleus": 0.01}, lambda p: torch.where(p == p.max(), 1.0, 0.0)),
    ],
)
def test_samples_come_as_often_as_they_should(settings: dict[str, Any], narrow: Callable[[Tensor], Tensor]) -> None:
    logits = torch.tensor([3.0, 2.0, 1.0, 0.3, 1.2, -0.4, 0.9, 0.0, -1.5])
    search = Sample(count=20_000, seed=3, limits=Limits(ratio=0.0, extra=1), **settings)
    counts, logits = frequencies(search, logits)
    allowed = torch.where(torch.arange(9) < EOS, 0.0, logits.softmax(0))
    wanted = narrow(allowed / allowed.sum())
    assert_drawn_from(counts, wanted / wanted.sum())


def smallest_of_nucleus(p: Tensor, mass: float) -> Tensor:
    ordered = p.sort(descending=True).values
    return ordered[int((ordered.cumsum(0) < mass).sum())]


def test_a_seed_repeats_its_samples() -> None:
    model, source = tiny_model(), sources(5, 3)
    assert Sample(count=4, seed=7)(model, source) == Sample(count=4, seed=7)(model, source)
    assert Sample(count=4, seed=7)(model, source) != Sample(count=4, seed=8)(model, source)
