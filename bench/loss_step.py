"""Time of the last layer's loss and its gradients on CUDA, by one Triton kernel and by formulas in torch.

python -m bench.loss_step

Forward and backward of `losses.chunked_cross_entropy` alone, bf16, label smoothing 0.1; the two ways must agree.
"""

from __future__ import annotations

import time
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from headway.model import losses

WARM, BLOCKS, STEPS = 3, 5, 5


class Case(NamedTuple):
    tokens: int
    vocabulary: int
    width: int
    r_drop: float  # above 0: R-Drop, two forward passes of each token


CASES = [
    Case(n, v, d, a)
    for n, v, d in ((8960, 33_278, 384), (8960, 10_000, 512), (16_000, 16_000, 512))
    for a in (0.0, 5.0)
]


class Loss:
    """One batch, again and again."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case = case
        self.hidden = torch.randn(2 if case.r_drop else 1, case.tokens, case.width, device="cuda", requires_grad=True)
        self.weight = (torch.randn(case.vocabulary, case.width, device="cuda") * 0.02).requires_grad_()
        self.labels = torch.randint(1, case.vocabulary, (case.tokens,), device="cuda")

    def step(self) -> list[Tensor]:
        with torch.autocast("cuda", torch.bfloat16):
            loss = losses.chunked_cross_entropy(self.hidden, self.weight, None, self.labels, 0.1, self.case.r_drop)
        return [loss.total, *torch.autograd.grad(loss.total / self.case.tokens, [self.hidden, self.weight])]

    def milliseconds(self) -> float:
        took = list[float]()
        for _ in range(WARM + BLOCKS):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(STEPS):
                self.step()
            torch.cuda.synchronize()
            took.append((time.perf_counter() - begun) / STEPS * 1e3)
        return median(took[WARM:])


def main() -> None:
    kernel = losses.gradient_in_place
    if kernel is None or not torch.cuda.is_available():
        raise SystemExit("skipped: needs a CUDA device and Triton")
    print("| tokens | pieces | R-Drop | written out, ms | one kernel, ms | faster |")
    print("|---|---|---|---|---|---|")
    for case in CASES:
        loss, took, found = Loss(case), list[float](), list[list[Tensor]]()
        for way in (None, kernel):
            losses.gradient_in_place = way
            took.append(loss.milliseconds())
            found.append(loss.step())
        for plain, fast in zip(*found, strict=True):
            assert (fast - plain).float().norm() <= 1e-2 * plain.float().norm(), "the two ways do not agree"
        words = f"{case.tokens:,} | {case.vocabulary:,} | {'yes' if case.r_drop else 'no'}"
        print(f"| {words} | {took[0]:.2f} | {took[1]:.2f} | {took[0] / took[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
