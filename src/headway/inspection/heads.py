"""What heads do, told from their weights: how widely and how far they look, and at what.

Kinds of heads are those of Voita et al. (2019): positional ones, which look at a fixed distance; one that looks at
rare words; others that rest on the sentence's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.inspection.forward_pass import Reading
from headway.text.tokenizer import Tokenizer, Tokenizers
from headway.text.vocabulary import EOS

CLEAR = 0.4  # a head is named after what gets most of its weight, if it gets at least so much
WIDE = 0.7  # of the greatest entropy there could be: it looks nearly everywhere alike


@dataclass(frozen=True)
class Habits:
    """Means over queries, one number for every head of every layer. Those of sentences can be averaged."""

    queries: int
    entropy: Float[Tensor, "l h"]  # nats
    breadth: Float[Tensor, "l h"]  # entropy as a share of the greatest possible
    distance: Float[Tensor, "l h"]  # pieces between the one that looks and what it looks at
    shares: dict[str, Float[Tensor, "l h"]]  # weight that goes to the previous piece, the end, ...

    def label(self, layer: int, head: int) -> str:
        share, name = max((float(share[layer, head]), name) for name, share in self.shares.items())
        return name if share >= CLEAR else "broad" if self.breadth[layer, head] >= WIDE else "mixed"


def habits(weights: Float[Tensor, "l h q k"], kind: str, rarity: Int[Tensor, "n"], sink: int) -> Habits:
    """Of one sentence. `sink` is the key that idle heads rest on; `rarity` is higher for rarer pieces."""
    queries, keys = weights.shape[-2:]
    entropy = torch.special.entr(weights).sum(dim=-1)
    visible = (weights > 0).sum(dim=-1).clamp(min=2)
    apart = offsets(queries, keys, kind)
    return Habits(
        queries,
        entropy.mean(dim=-1),
        (entropy / visible.log()).mean(dim=-1),
        (weights * apart.abs()).sum(dim=-1).mean(dim=-1),
        {
            "sink": weights[..., sink].mean(dim=-1),
            **relative_shares(weights, apart, kind),
            "rare": rare_share(weights, rarity, sink),
        },
    )


def reading_habits(reading: Reading, tokenizers: Tokenizers, stack: str, kind: str) -> Habits:
    """Of one translation. Idle heads of the decoder rest on the beginning, all others on the end of the source."""
    ids, tokenizer, sink = reading.source[0].tolist(), tokenizers.source, -1
    if (stack, kind) == ("decoder", "self"):
        ids, tokenizer, sink = reading.inputs[0].tolist(), tokenizers.target, 0
    return habits(reading.attention(stack, kind).cpu(), kind, rarity(ids, tokenizer), sink)


def offsets(queries: int, keys: int, kind: str) -> Float[Tensor, "q k"]:
    """How far each key is behind (-) or ahead (+) of a query; across languages, of its place on the diagonal."""
    stretch = (keys - 1) / max(1, queries - 1) if kind == "cross" else 1.0
    return torch.arange(keys)[None] - torch.arange(queries)[:, None] * stretch


def relative_shares(
    weights: Float[Tensor, "l h q k"], apart: Float[Tensor, "q k"], kind: str
) -> dict[str, Float[Tensor, "l h"]]:
    """The weight at fixed distances. Across languages no distance is exact, so one piece to each side counts too."""
    slack = 1.0 if kind == "cross" else 0.0
    rounded = apart.round()

    def at(distance: int) -> Float[Tensor, "l h"]:
        """Of the queries that have a key at this distance."""
        there = (rounded - distance).abs() <= slack
        able = there.any(dim=-1)
        if not able.any():
            return weights.new_zeros(weights.shape[:2])
        return (weights * there).sum(dim=-1)[..., able].mean(dim=-1)

    if kind == "cross":
        return {"diagonal": at(0)}
    others = [at(distance) for distance in (-4, -3, -2, 2, 3, 4)]
    return {"previous": at(-1), "next": at(1), "diagonal": at(0), "position": torch.stack(others).amax(dim=0)}


def rare_share(weights: Float[Tensor, "l h q k"], rarity: Int[Tensor, "n"], sink: int) -> Float[Tensor, "l h"]:
    """The weight of the sentence's rarest piece; none where keys are pressed together and stand for no piece."""
    words = rarity.clone()
    words[sink] = -1
    if len(words) != weights.size(-1):
        return weights.new_zeros(weights.shape[:2])
    return weights[..., int(words.argmax())].mean(dim=-1)


def rarity(ids: Sequence[int], tokenizer: Tokenizer) -> Int[Tensor, "n"]:
    """Vocabularies begin with their most frequent pieces, so numbers rank them; single bytes are the rarest."""
    ranks = [len(tokenizer) if tokenizer.piece(piece).startswith("<0x") else piece for piece in ids]
    return torch.tensor([0 if piece <= EOS else rank for piece, rank in zip(ids, ranks, strict=True)])


def average(several: Sequence[Habits]) -> Habits:
    """Of many sentences, each query counting alike."""
    total = sum(one.queries for one in several)

    def mean(values: Sequence[Float[Tensor, "l h"]]) -> Float[Tensor, "l h"]:
        parts = [value * (one.queries / total) for value, one in zip(values, several, strict=True)]
        return torch.stack(parts).sum(dim=0)

    return Habits(
        total,
        mean([one.entropy for one in several]),
        mean([one.breadth for one in several]),
        mean([one.distance for one in several]),
        {name: mean([one.shares[name] for one in several]) for name in several[0].shares},
    )


def describe_heads(found: Habits, stack: str, kind: str) -> list[dict[str, Any]]:
    layers, heads = found.entropy.shape
    return [
        {
            "stack": stack,
            "kind": kind,
            "layer": layer,
            "head": head,
            "entropy": float(found.entropy[layer, head]),
            "distance": float(found.distance[layer, head]),
            "label": found.label(layer, head),
        }
        for layer in range(layers)
        for head in range(heads)
    ]
