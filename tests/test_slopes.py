"""The loss's slopes by one kernel are those written out in torch, which test_losses.py holds to torch's own.

Kernels run on a card, or anywhere with Triton and TRITON_INTERPRET=1.
"""

from __future__ import annotations

import os

import pytest
import torch

from headway import losses
from headway.losses import chunked, slopes_in_place
from headway.text.vocabulary import PAD

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RUNS = slopes_in_place is not None and (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1")
pytestmark = pytest.mark.skipif(not RUNS, reason="needs Triton, and a CUDA device or its interpreter")

WIDTHS = [(1, 8), (37, 40), (4096, 4096), (4097, 4104), (9001, 9008)]  # of the vocabulary, and of a row of logits
CLOSE = {torch.float32: 2e-5, torch.bfloat16: 1 / 128}


@pytest.mark.parametrize("kind", CLOSE)
@pytest.mark.parametrize(("vocabulary", "width"), WIDTHS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("agreement", [0.0, 3.0])
def test_slopes_are_those_written_out(
    kind: torch.dtype, vocabulary: int, width: int, smoothing: float, agreement: float
) -> None:
    labels = torch.randint(min(1, vocabulary - 1), vocabulary, (5,))
    labels[2] = PAD
    rows = 10 if agreement else 5
    logits = (3 * torch.randn(rows, width)).to(kind)
    total, nll, expected = losses.slopes(logits.double(), labels, vocabulary, smoothing, agreement)
    given, wanted = logits.to(DEVICE), labels.repeat(rows // 5).to(DEVICE)
    assert slopes_in_place is not None
    each, spread, gaps = slopes_in_place(given, labels.to(DEVICE), vocabulary, smoothing, agreement)
    real = wanted != PAD
    found = (1 - smoothing) * each[real].sum() + smoothing * spread[real].sum() + agreement * gaps[real[:5]].sum()
    torch.testing.assert_close(each[real].sum().double().cpu(), nll, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.double().cpu(), total, rtol=1e-5, atol=1e-5)
    assert not given[:, vocabulary:].any(), "nothing past the vocabulary"
    slope = given[:, :vocabulary].double().cpu()
    torch.testing.assert_close(slope, expected[:, :vocabulary], rtol=CLOSE[kind], atol=2e-5)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a CUDA device")
@pytest.mark.parametrize("agreement", [0.0, 3.0])
def test_the_loss_on_a_card_is_that_of_a_processor(agreement: float) -> None:
    hidden, weight = torch.randn(2 if agreement else 1, 300, 64), torch.randn(5003, 64)
    labels = torch.randint(0, 5003, (300,))
    answers = []
    for device, kind in (("cpu", torch.float64), ("cuda", torch.float32)):
        parts = [x.to(device, kind).requires_grad_() for x in (hidden, weight)]
        loss = chunked(*parts, None, labels.to(device), 0.1, agreement)
        answers.append([loss.total, loss.nll, *torch.autograd.grad(loss.total, parts)])
    for ours, theirs in zip(answers[1], answers[0], strict=True):
        torch.testing.assert_close(ours.double().cpu(), theirs, rtol=1e-4, atol=1e-3)
