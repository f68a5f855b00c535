"""What in the source caused what in the target: gradients, integrated gradients, and leaving pieces out.

Row t, column s: how much source piece s speaks for target piece t, in nats. Attention only shows where a model looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.inspection.forward_pass import Reading
from headway.inspection.trace_request import Check, go_on
from headway.model.inputs import Embedded, real_tokens
from headway.model.models import EncoderDecoder
from headway.search import score
from headway.text.vocabulary import EOS, UNK

POINTS = 24  # on the path from unknown pieces to the source, Gauss and Legendre's
ROWS = 32  # sentences scored at once when pieces are left out


class Vectors(nn.Module):
    """Stands in for an embedding and returns the same vectors for all tokens."""

    def __init__(self, x: Float[Tensor, "p s d"]) -> None:
        super().__init__()
        self.x = x

    def forward(self, batch: Int[Tensor, "p s"]) -> Embedded:
        return Embedded(self.x, real_tokens(batch))


@contextmanager
def reading_vectors(model: EncoderDecoder, x: Float[Tensor, "p s d"]) -> Iterator[None]:
    embedding = model.source_embedding
    model.source_embedding = Vectors(x)
    try:
        yield
    finally:
        model.source_embedding = embedding


def attribution(model: EncoderDecoder, reading: Reading, check: Check = go_on) -> dict[str, Any]:
    """Input times gradient; and gradients along the path from unknown pieces (Sundararajan et al. 2017).

    Those of the path add up to what knowing the source does to the target's log-probability: the check.
    """
    source = reading.source.clone()  # not made in inference mode, so that gradients may pass
    vectors = model.source_embedding(source).vectors.detach()
    unknown = model.source_embedding(torch.where(source == EOS, EOS, UNK)).vectors.detach()
    inner, weights = np.polynomial.legendre.leggauss(POINTS)
    places = vectors.new_tensor([0.0, *(inner + 1) / 2, 1.0])[:, None, None]
    slopes, logp = slopes_at(model, reading, unknown + places * (vectors - unknown), check)
    shares = vectors.new_tensor([0.0, *weights / 2, 0.0])
    integrated = torch.einsum("p,tpsd,sd->ts", shares, slopes, (vectors - unknown)[0])
    sums = {"expected": float((logp[-1] - logp[0]).sum()), "found": float(integrated.sum())}
    return {"gradient": told((slopes[:, -1] * vectors).sum(dim=-1)), "integrated": told(integrated) | {"check": sums}}


@torch.enable_grad()
def slopes_at(
    model: EncoderDecoder, reading: Reading, vectors: Float[Tensor, "p s d"], check: Check
) -> tuple[Float[Tensor, "t p s d"], Float[Tensor, "p t"]]:
    """For sources given as vectors: how each target piece's log-probability leans on them, and what it is.

    A piece's score depends on its own hidden vector alone, so the vocabulary is passed through once for all pieces.
    """
    source, inputs, target = (
        x.clone().expand(len(vectors), -1) for x in (reading.source, reading.inputs, reading.target)
    )
    x = vectors.requires_grad_()
    with reading_vectors(model, x):
        hidden, encoded = model.decode(source, inputs)
    top = hidden.detach().requires_grad_()
    logp = model.head(top, encoded).float().log_softmax(dim=-1).gather(2, target[..., None])[..., 0]
    (down,) = torch.autograd.grad(logp.sum(), top)
    found = []
    for t in range(target.size(1)):
        check()
        only = torch.zeros_like(down)
        only[:, t] = down[:, t]
        found += torch.autograd.grad(hidden, x, only, retain_graph=True)
    return torch.stack(found), logp.detach()


def occlusion(model: EncoderDecoder, reading: Reading, check: Check = go_on) -> dict[str, Any]:
    """How much less likely each target piece is when a source piece is left out."""
    ids = reading.source[0]
    without = torch.stack([torch.cat([ids[:s], ids[s + 1 :]]) for s in range(len(ids))])
    scored = []
    for rows in without.split(ROWS):
        check()
        scored.append(score(model, rows, reading.target.expand(len(rows), -1)))
    return {"occlusion": told((reading.chosen - torch.cat(scored)).T)}


def told(table: Float[Tensor, "t s"]) -> dict[str, Any]:
    return {"shape": list(table.shape), "data": [round(value, 6) for value in table.flatten().tolist()], "check": None}
