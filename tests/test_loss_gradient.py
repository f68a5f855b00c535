"""The Triton kernel's gradient equals the formulas in torch, which test_losses.py compares with torch's own loss.

The kernels run on a CUDA device, or anywhere with Triton and TRITON_INTERPRET=1.
"""

from __future__ import annotations

import os

import pytest
import torch

from headway.model import losses
from headway.model.losses import chunked_cross_entropy, gradient_in_place
from headway.text.vocabulary import PAD

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RUNS = gradient_in_place is not None and (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1")
pytestmark = pytest.mark.skipif(not RUNS, reason="needs Triton, and a CUDA device or its interpreter")

WIDTHS = [(1, 8), (37, 40), (4096, 4096), (4097, 4104), (9001, 9008)]  # of the vocabulary, and of a row of logits
CLOSE = {torch.float32: 2e-5, torch.bfloat16: 1 / 128}


@pytest.mark.parametrize("kind", CLOSE)
@pytest.mark.parametrize(("vocabulary", "width"), WIDTHS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_the_kernel_computes_the_gradient_of_the_formulas(
    kind: torch.dtype, vocabulary: int, width: int, smoothing: float, r_drop: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = torch.randint(min(1, vocabulary - 1), vocabulary, (5,))
    labels[2] = PAD
    rows = 10 if r_drop else 5
    logits = (3 * torch.randn(rows, width)).to(kind)
    total, nll, expected = losses.loss_gradient(logits.double(), labels, vocabulary, smoothing, r_drop)
    monkeypatch.setattr(losses, "by_kernel", lambda _: True)
    given = logits.to(DEVICE)
    found, plain, gradient = losses.loss_gradient(given, labels.to(DEVICE), vocabulary, smoothing, r_drop)
    assert gradient is given, "in its own place"
    torch.testing.assert_close(plain.double().cpu(), nll, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.double().cpu(), total, rtol=1e-5, atol=1e-5)
    assert not gradient[:, vocabulary:].any(), "nothing past the vocabulary"
    real = labels.repeat(rows // 5) != PAD  # padding is taken out later
    ours, theirs = gradient[:, :vocabulary].double().cpu()[real], expected[:, :vocabulary][real]
    torch.testing.assert_close(ours, theirs, rtol=CLOSE[kind], atol=2e-5)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a CUDA device")
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
@pytest.mark.parametrize("half", [False, True])
def test_the_loss_on_a_card_is_that_of_a_processor(r_drop: float, half: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several chunks, with a bias and padding."""
    monkeypatch.setattr(losses, "chunk_size", lambda *_: 128)
    hidden, weight, bias = torch.randn(2 if r_drop else 1, 300, 64), torch.randn(5003, 64) / 8, torch.randn(5003)
    labels = torch.randint(0, 5003, (300,))
    answers = []
    for device, kind in (("cpu", torch.float64), ("cuda", torch.float32)):
        parts = [x.to(device, kind).requires_grad_() for x in (hidden, weight, bias)]
        with torch.autocast("cuda", torch.bfloat16, enabled=half and device == "cuda"):
            loss = chunked_cross_entropy(parts[0], parts[1], parts[2], labels.to(device), 0.1, r_drop)
        answers.append([loss.total.detach(), loss.nll.detach(), *torch.autograd.grad(loss.total, parts)])
    for ours, theirs in zip(answers[1], answers[0], strict=True):
        length = max(1.0, float(theirs.norm()))
        assert float((ours.double().cpu() - theirs).norm()) < (0.02 if half else 1e-4) * length
