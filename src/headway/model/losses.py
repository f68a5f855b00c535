"""Losses. All return sums and counts, so that batches, ranks and accumulated steps add up exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from headway.text.vocabulary import PAD

try:  # on machines with Triton
    from headway.model.loss_gradient import kernel_works, slopes_in_place
except ImportError:
    slopes_in_place = kernel_works = None


@dataclass(frozen=True)
class Loss:
    """Sums over the real tokens of a batch."""

    total: Float[Tensor, ""]  # what is minimised
    nll: Float[Tensor, ""]  # plain cross-entropy, for perplexity
    count: Int[Tensor, ""]  # real tokens


def label_smoothed(logits: Float[Tensor, "*b v"], labels: Int[Tensor, "*b"], smoothing: float) -> Loss:
    """Cross-entropy against a target that keeps `smoothing` of its mass for all pieces (section 5.4)."""
    log_probs = exact(logits).log_softmax(dim=-1)
    real = labels != PAD
    nll = -log_probs.gather(-1, labels[..., None])[..., 0]
    spread = -log_probs.mean(dim=-1)
    per_token = (1 - smoothing) * nll + smoothing * spread
    return Loss((per_token * real).sum(), (nll * real).sum().detach(), real.sum())


def exact(logits: Tensor) -> Tensor:
    """At least single precision: sums over a vocabulary need it."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def chunked(
    hidden: Float[Tensor, "*a d"],
    weight: Float[Tensor, "v d"],
    bias: Float[Tensor, "v"] | None,
    labels: Int[Tensor, "*b"],
    smoothing: float,
    agreement: float = 0.0,
) -> Loss:
    """The same from hidden vectors, a few thousand tokens at a time: the logits of a batch never exist together.

    With `agreement`, `hidden` holds the batch twice, one pass after the other: the loss is their mean, and how far
    apart the two distributions of each token are, so weighted (R-Drop, Liang et al. 2021).
    """
    wanted, passes = labels.flatten().contiguous(), hidden.reshape(2 if agreement else 1, -1, hidden.size(-1))
    total, nll = _Chunked.apply(passes, weight, bias, wanted, smoothing, agreement)
    return Loss(total, nll, (wanted != PAD).sum())


def chunk_size(vocabulary: int, device: torch.device) -> int:
    """Tokens whose logits stay in the cache (CPU), or fill the chip without filling its memory (GPU).

    Not fewer than 256 of them: each chunk adds to the gradient of the whole matrix, which costs as much for a few.
    """
    numbers = (1 << 21) if device.type == "cpu" else (1 << 28)
    return max(256, numbers // vocabulary // 64 * 64)


def alignment(device: torch.device) -> int:
    """Rows whose length is no multiple of this go through slower kernels than those made for tensor cores."""
    return 16 if device.type == "cuda" else 1


def aligned(x: Tensor) -> Tensor:
    """The same with zeros after its last row, up to a multiple of the alignment."""
    missing = -len(x) % alignment(x.device)
    return F.pad(x, [0, 0] * (x.dim() - 1) + [0, missing]) if missing else x


class _Chunked(torch.autograd.Function):
    """Gradients are made while the logits of a chunk are at hand; backward only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "c n d"],
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        agreement: float,
    ) -> tuple[Tensor, Tensor]:
        low = torch.get_autocast_dtype(hidden.device.type) if torch.is_autocast_enabled(hidden.device.type) else None
        x, w = (hidden, weight) if low is None else (hidden.to(low), weight.to(low))
        b = None if bias is None else aligned(bias.to(w.dtype))
        w = aligned(w)
        wants_gradient, copies = hidden.requires_grad or weight.requires_grad, len(x)
        grad_x, grad_w = torch.empty_like(x), torch.zeros_like(weight)
        grad_b = None if bias is None else torch.zeros_like(bias)
        total, nll = (exact(x.new_zeros(())) for _ in range(2))
        size = max(1, chunk_size(weight.size(0), x.device) // copies)
        for start in range(0, x.size(1), size):
            part = slice(start, start + size)
            rows, wanted = x[:, part].flatten(0, 1), labels[part]
            chunk_total, chunk_nll, slope = slopes(F.linear(rows, w, b), wanted, len(weight), smoothing, agreement)
            total, nll = total + chunk_total, nll + chunk_nll
            if wants_gradient:  # padding is taken out here, where rows are short
                real = (wanted.repeat(copies)[:, None] != PAD).to(x.dtype)
                grad_x[:, part] = ((slope @ w) * real).unflatten(0, (copies, -1))
                grad_w += (slope.t() @ (rows * real))[: len(weight)]
                if grad_b is not None:
                    grad_b += (slope.t() @ real)[: len(weight), 0]
        ctx.save_for_backward(grad_x, grad_w, *([] if grad_b is None else [grad_b]))
        ctx.hidden_dtype, ctx.copies = hidden.dtype, copies
        ctx.mark_non_differentiable(nll)
        return total / copies, nll / copies

    @staticmethod
    def backward(ctx: Any, *outside: Tensor) -> tuple[Tensor | None, ...]:
        grad_x, grad_w, *grad_b = ctx.saved_tensors
        scale = outside[0] / ctx.copies
        scaled_b = grad_b[0] * scale if grad_b else None
        return (grad_x * scale).to(ctx.hidden_dtype), grad_w * scale.to(grad_w.dtype), scaled_b, None, None, None


def slopes(
    logits: Float[Tensor, "m w"], labels: Int[Tensor, "n"], vocabulary: int, smoothing: float, agreement: float
) -> tuple[Tensor, Tensor, Float[Tensor, "m w"]]:
    """Loss, cross-entropy, and the loss's gradient by the logits, which may be wider than the vocabulary.

    With `agreement` there are two rows for each label, first all of one reading, then all of the other. The logits are
    used up.
    """
    wanted = labels.repeat(len(logits) // len(labels))
    if slopes_in_place is not None and by_kernel(logits):
        nll, spread, gaps = slopes_in_place(logits, labels, vocabulary, smoothing, agreement)
        plain = (nll * (wanted != PAD)).sum()
        total = (1 - smoothing) * plain + smoothing * (spread * (wanted != PAD)).sum()
        return total + agreement * (gaps * (labels != PAD)).sum(), plain, logits
    known = logits[:, :vocabulary]
    total, plain, slope = smoothed_slope(known, wanted, smoothing)
    if agreement:
        gap, gap_slope = disagreement(*known.chunk(2), real=labels != PAD)
        total, slope = total + agreement * gap, slope.add_(gap_slope, alpha=agreement)
    missing = logits.size(1) - vocabulary
    return total, plain, F.pad(slope, (0, missing)) if missing else slope


def by_kernel(logits: Tensor) -> bool:
    """torch.compile makes kernels of its own from what is written out."""
    if not logits.is_cuda or logits.dtype == torch.float64 or torch.compiler.is_compiling() or kernel_works is None:
        return False
    return kernel_works(logits.device)


def disagreement(
    first: Float[Tensor, "n v"], second: Float[Tensor, "n v"], real: Bool[Tensor, "n"]
) -> tuple[Tensor, Float[Tensor, "m v"]]:
    """Half the two divergences, KL(p, q) + KL(q, p), summed over real tokens, and its gradient by both logits."""
    log_p, log_q = (exact(x).log_softmax(dim=-1) for x in (first, second))
    p, q, gap = log_p.exp(), log_q.exp(), log_p - log_q
    ahead, behind = (p * gap).sum(dim=-1, keepdim=True), -(q * gap).sum(dim=-1, keepdim=True)
    slopes = p * (gap - ahead) + (p - q), q * (-gap - behind) + (q - p)
    total = ((ahead + behind)[:, 0] * real).sum() / 2
    return total, (torch.cat(slopes) / 2).to(first.dtype)


def apart(
    first: Float[Tensor, "*b v"], second: Float[Tensor, "*b v"], chances: Callable[[Tensor], Tensor]
) -> Float[Tensor, "*b"]:
    """Half of KL(p, q) + KL(q, p) from scores of few labels, by autograd: (p - q) times the difference of scores.

    What the scores are normalised by goes out in the sum of both divergences, so this holds for a softmax, for labels
    that stand alone, and for whole sequences under a random field, whose chances are its marginals.
    """
    return ((chances(first) - chances(second)) * (first - second)).sum(dim=-1) / 2


def smoothed_slope(
    logits: Float[Tensor, "n v"], labels: Int[Tensor, "n"], smoothing: float
) -> tuple[Tensor, Tensor, Float[Tensor, "n v"]]:
    """Loss, cross-entropy, and the loss's gradient by the logits, also in rows of padding: softmax minus the target."""
    slope = exact(logits).log_softmax(dim=-1)
    real, picked = labels != PAD, slope.gather(-1, labels[:, None])
    nll, spread = -(picked[:, 0] * real).sum(), -(slope.mean(dim=-1) * real).sum()
    slope.exp_().sub_(smoothing / slope.size(-1))
    slope.scatter_add_(-1, labels[:, None], torch.full_like(picked, smoothing - 1.0))
    return (1 - smoothing) * nll + smoothing * spread, nll, slope.to(logits.dtype)
