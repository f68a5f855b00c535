"""Forced decoding: what a model thinks of a given translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headway.model.inputs import SourceBatch
from headway.search.base import Hypothesis, length_weight
from headway.text.vocabulary import BOS, EOS, PAD

# From sources [b s] and targets that begin with BOS [b t] to unnormalised scores of every next piece [b t v].
Forward = Callable[[SourceBatch, Int[Tensor, "b t"]], Float[Tensor, "b t v"]]


@torch.inference_mode()
def score(model: Forward, source: SourceBatch, target: Int[Tensor, "b t"]) -> Float[Tensor, "b t"]:
    """The log-probability of every piece of the targets, which end with EOS; 0 at padding."""
    logits = model(source, F.pad(target[:, :-1], (1, 0), value=BOS))
    losses = F.cross_entropy(logits.flatten(0, 1).float(), target.flatten(), ignore_index=PAD, reduction="none")
    return -losses.view_as(target)


def score_texts(
    model: Forward, source: SourceBatch, texts: Sequence[Sequence[int]], alpha: float = 0.6
) -> list[Hypothesis]:
    """Each text, given as pieces without an end, as if a search had found it."""
    longest = max(map(len, texts)) + 1
    rows = [[*text, EOS, *[PAD] * (longest - len(text) - 1)] for text in texts]
    scores = score(model, source, torch.tensor(rows, device=source.device)).tolist()
    found = [row[: len(text) + 1] for row, text in zip(scores, texts, strict=True)]
    return [
        Hypothesis(list(text), sum(row) * length_weight(len(row), alpha), sum(row), row, finished=True)
        for row, text in zip(found, texts, strict=True)
    ]
