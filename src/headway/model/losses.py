"""Losses. All return sums and counts, so batches, ranks and accumulated steps add up exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from headway.text.vocabulary import PAD

try:  # on machines with Triton
    from headway.model.loss_gradient import gradient_in_place, kernel_works
except ImportError:
    gradient_in_place = kernel_works = None


@dataclass(frozen=True)
class Loss:
    """Sums over the real tokens of a batch."""

    total: Float[Tensor, ""]  # what is minimised
    nll: Float[Tensor, ""]  # plain cross-entropy, for perplexity
    count: Int[Tensor, ""]  # real tokens


def label_smoothed(logits: Float[Tensor, "*b v"], labels: Int[Tensor, "*b"], smoothing: float) -> Loss:
    """Cross-entropy with label smoothing: `smoothing` of the mass goes to all tokens alike (section 5.4)."""
    log_probs = exact(logits).log_softmax(dim=-1)
    real = labels != PAD
    nll = -log_probs.gather(-1, labels[..., None])[..., 0]
    spread = -log_probs.mean(dim=-1)
    per_token = (1 - smoothing) * nll + smoothing * spread
    return Loss((per_token * real).sum(), (nll * real).sum().detach(), real.sum())


def exact(logits: Tensor) -> Tensor:
    """At least single precision: sums over a vocabulary need it."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def chunked_cross_entropy(
    hidden: Float[Tensor, "*a d"],
    weight: Float[Tensor, "v d"],
    bias: Float[Tensor, "v"] | None,
    labels: Int[Tensor, "*b"],
    smoothing: float,
    r_drop: float = 0.0,
) -> Loss:
    """The same loss from hidden vectors, a few thousand tokens at a time: the logits of a batch never exist together.

    With `r_drop` above 0, `hidden` holds the batch twice, one forward pass after the other. The loss is then the mean
    of both passes plus `r_drop` times the symmetric KL divergence of their distributions (Liang et al. 2021).
    """
    wanted, passes = labels.flatten().contiguous(), hidden.reshape(2 if r_drop else 1, -1, hidden.size(-1))
    apply = cast("Callable[..., tuple[Tensor, Tensor]]", _ChunkedCrossEntropy.apply)  # pyright: ignore[reportUnknownMemberType]
    total, nll = apply(passes, weight, bias, wanted, smoothing, r_drop)
    return Loss(total, nll, (wanted != PAD).sum())


def chunk_size(vocabulary: int, device: torch.device) -> int:
    """The number of tokens whose logits fit into the cache (CPU), or fill the GPU without filling its memory.

    It is at least 256: each chunk adds to the gradient of the whole matrix, which costs the same for fewer tokens.
    """
    numbers = (1 << 21) if device.type == "cpu" else (1 << 28)
    return max(256, numbers // vocabulary // 64 * 64)


def alignment(device: torch.device) -> int:
    """The multiple that the length of a row must be for the kernels of tensor cores."""
    return 16 if device.type == "cuda" else 1


def aligned(x: Tensor) -> Tensor:
    """The matrix with rows of zeros appended, up to a multiple of the alignment."""
    missing = -len(x) % alignment(x.device)
    return F.pad(x, [0, 0] * (x.dim() - 1) + [0, missing]) if missing else x


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Cross-entropy whose gradients are computed with each chunk's logits in forward; backward only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "c n d"],
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        r_drop: float,
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
            chunk_total, chunk_nll, gradient = loss_gradient(
                F.linear(rows, w, b), wanted, len(weight), smoothing, r_drop
            )
            total, nll = total + chunk_total, nll + chunk_nll
            if wants_gradient:  # padding is taken out here, where rows are short
                real = (wanted.repeat(copies)[:, None] != PAD).to(x.dtype)
                grad_x[:, part] = ((gradient @ w) * real).unflatten(0, (copies, -1))
                grad_w += (gradient.t() @ (rows * real))[: len(weight)]
                if grad_b is not None:
                    grad_b += (gradient.t() @ real)[: len(weight), 0]
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


def loss_gradient(
    logits: Float[Tensor, "m w"], labels: Int[Tensor, "n"], vocabulary: int, smoothing: float, r_drop: float
) -> tuple[Tensor, Tensor, Float[Tensor, "m w"]]:
    """The loss, the plain cross-entropy, and the loss's gradient with respect to the logits.

    The logits may be wider than the vocabulary, and are overwritten. With `r_drop` there are two rows for each label:
    first all rows of one forward pass, then all rows of the other.
    """
    wanted = labels.repeat(len(logits) // len(labels))
    if gradient_in_place is not None and by_kernel(logits):
        nll, spread, gaps = gradient_in_place(logits, labels, vocabulary, smoothing, r_drop)
        plain = (nll * (wanted != PAD)).sum()
        total = (1 - smoothing) * plain + smoothing * (spread * (wanted != PAD)).sum()
        return total + r_drop * (gaps * (labels != PAD)).sum(), plain, logits
    known = logits[:, :vocabulary]
    total, plain, gradient = cross_entropy_gradient(known, wanted, smoothing)
    if r_drop:
        gap, gap_gradient = symmetric_kl_gradient(*known.chunk(2), real=labels != PAD)
        total, gradient = total + r_drop * gap, gradient.add_(gap_gradient, alpha=r_drop)
    missing = logits.size(1) - vocabulary
    return total, plain, F.pad(gradient, (0, missing)) if missing else gradient


def by_kernel(logits: Tensor) -> bool:
    """Whether the Triton kernel is used; torch.compile generates its own kernels from the plain formulas."""
    if not logits.is_cuda or logits.dtype == torch.float64 or torch.compiler.is_compiling() or kernel_works is None:
        return False
    return kernel_works(logits.device)


def symmetric_kl_gradient(
    first: Float[Tensor, "n v"], second: Float[Tensor, "n v"], real: Bool[Tensor, "n"]
) -> tuple[Tensor, Float[Tensor, "m v"]]:
    """Half of KL(p, q) + KL(q, p), summed over real tokens, and its gradient with respect to both logits."""
    log_p, log_q = (exact(x).log_softmax(dim=-1) for x in (first, second))
    p, q, gap = log_p.exp(), log_q.exp(), log_p - log_q
    ahead, behind = (p * gap).sum(dim=-1, keepdim=True), -(q * gap).sum(dim=-1, keepdim=True)
    gradients = p * (gap - ahead) + (p - q), q * (-gap - behind) + (q - p)
    total = ((ahead + behind)[:, 0] * real).sum() / 2
    return total, (torch.cat(gradients) / 2).to(first.dtype)


def symmetric_kl(
    first: Float[Tensor, "*b v"], second: Float[Tensor, "*b v"], chances: Callable[[Tensor], Tensor]
) -> Float[Tensor, "*b"]:
    """Half of KL(p, q) + KL(q, p) from the scores of few labels, by autograd: (p - q) times the difference of scores.

    The normalisers cancel in the sum of both divergences. So this holds for a softmax, for independent labels, and for
    whole sequences under a conditional random field, whose `chances` are its marginals.
    """
    return ((chances(first) - chances(second)) * (first - second)).sum(dim=-1) / 2


def cross_entropy_gradient(
    logits: Float[Tensor, "n v"], labels: Int[Tensor, "n"], smoothing: float
) -> tuple[Tensor, Tensor, Float[Tensor, "n v"]]:
    """The loss, the cross-entropy, and the gradient by the logits (softmax minus target), also in rows of padding."""
    gradient = exact(logits).log_softmax(dim=-1)
    real, picked = labels != PAD, gradient.gather(-1, labels[:, None])
    nll, spread = -(picked[:, 0] * real).sum(), -(gradient.mean(dim=-1) * real).sum()
    gradient.exp_().sub_(smoothing / gradient.size(-1))
    gradient.scatter_add_(-1, labels[:, None], torch.full_like(picked, smoothing - 1.0))
    return (1 - smoothing) * nll + smoothing * spread, nll, gradient.to(logits.dtype)
