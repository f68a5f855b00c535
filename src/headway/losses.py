"""Losses. All return sums and counts, so that batches, ranks and accumulated steps add up exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headway.text.vocabulary import PAD


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
    hidden: Float[Tensor, "*b d"],
    weight: Float[Tensor, "v d"],
    bias: Float[Tensor, "v"] | None,
    labels: Int[Tensor, "*b"],
    smoothing: float,
) -> Loss:
    """The same from hidden vectors, a few thousand tokens at a time: the logits of a batch never exist together."""
    flat, wanted = hidden.flatten(0, -2), labels.flatten()
    total, nll = _Chunked.apply(flat, weight, bias, wanted, smoothing)
    return Loss(total, nll, (wanted != PAD).sum())


def chunk_size(vocabulary: int, device: torch.device) -> int:
    """Tokens whose logits stay in the cache (CPU), or fill the chip without filling its memory (GPU)."""
    numbers = (1 << 21) if device.type == "cpu" else (1 << 28)
    return max(64, numbers // vocabulary // 64 * 64)


class _Chunked(torch.autograd.Function):
    """Gradients are made while the logits of a chunk are at hand; backward only scales them."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        low = torch.get_autocast_dtype(hidden.device.type) if torch.is_autocast_enabled(hidden.device.type) else None
        x, w = (hidden, weight) if low is None else (hidden.to(low), weight.to(low))
        wants_gradient = hidden.requires_grad or weight.requires_grad
        grad_x, grad_w = torch.empty_like(x), torch.zeros_like(weight)
        grad_b = None if bias is None else torch.zeros_like(bias)
        total, nll = (exact(x.new_zeros(())) for _ in range(2))
        size = chunk_size(weight.size(0), x.device)
        for start in range(0, len(x), size):
            part = slice(start, start + size)
            logits = F.linear(x[part], w, None if bias is None else bias.to(w.dtype))
            chunk_total, chunk_nll, slope = smoothed_slope(logits, labels[part], smoothing)
            total, nll = total + chunk_total, nll + chunk_nll
            if wants_gradient:  # padding is taken out here, where rows are short
                real = (labels[part, None] != PAD).to(x.dtype)
                grad_x[part] = (slope @ w) * real
                grad_w += slope.t() @ (x[part] * real)
                if grad_b is not None:
                    grad_b += (slope.t() @ real)[:, 0]
        ctx.save_for_backward(grad_x, grad_w, *([] if grad_b is None else [grad_b]))
        ctx.hidden_dtype = hidden.dtype
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, *outside: Tensor) -> tuple[Tensor | None, ...]:
        grad_x, grad_w, *grad_b = ctx.saved_tensors
        scale = outside[0]
        scaled_b = grad_b[0] * scale if grad_b else None
        return (grad_x * scale).to(ctx.hidden_dtype), grad_w * scale.to(grad_w.dtype), scaled_b, None, None


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
