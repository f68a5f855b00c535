"""One look at the logits of a step: how much they sum to, and the best of every block of pieces."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.search.candidates import BLOCK, Candidates, block_maxima
from headway.text.vocabulary import BOS

try:  # on machines with Triton
    from headway.engines.cuda.logsumexp_topk import scan
except ImportError:
    scan = None

NEVER = BOS + 1  # padding, unknown and begin are the first pieces, and never an output


def look(logits: Float[Tensor, "n v"]) -> tuple[Float[Tensor, "n"], Float[Tensor, "n m"]]:
    """The logarithm of the sum of exponentials, and the best logit of every block; special pieces are no best."""
    if scan is not None and logits.is_cuda:
        return scan(logits, NEVER, BLOCK)
    full = logits.float()
    allowed = full.clone()
    allowed[:, :NEVER] = -torch.inf
    return full.logsumexp(dim=-1), block_maxima(allowed)


def best_continuations(logits: Float[Tensor, "n v"], totals: Float[Tensor, "b w"], count: int) -> Candidates:
    """The `count` best continuations of each sentence; only the blocks that can hold them are looked into."""
    (sentences, beam), pieces = totals.shape, logits.size(1)
    sums, maxima = look(logits)
    base = totals - sums.view(sentences, beam)
    blocks = maxima.size(1)
    summed = (maxima.view(sentences, beam, blocks) + base[..., None]).flatten(1)
    chosen = summed.topk(min(count, summed.size(1)), dim=1, sorted=False).indices
    parents = chosen.div(blocks, rounding_mode="floor")
    within = (chosen % blocks * BLOCK)[..., None] + torch.arange(BLOCK, device=logits.device)
    places = (parents[..., None] * pieces + within.clamp(max=pieces - 1)).flatten(1)
    values = logits.view(sentences, -1).gather(1, places).float().unflatten(1, (-1, BLOCK))
    values = values + base.gather(1, parents)[..., None]
    values = values.masked_fill((within >= pieces) | (within < NEVER), -torch.inf)
    best, index = values.flatten(1).topk(count, dim=1)
    return picked(best, places.gather(1, index), totals, pieces)


def picked(
    best: Float[Tensor, "b c"], places: Int[Tensor, "b c"], totals: Float[Tensor, "b w"], pieces: int
) -> Candidates:
    parents = places.div(pieces, rounding_mode="floor")
    return Candidates(best, best - totals.gather(1, parents), parents, places % pieces)
