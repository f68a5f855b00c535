"""An output distribution: a mixture of the vocabulary and the words of the source (See et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.encoded import NO_SOURCE, EncodedSource
from headway.model.outputs.base import OutputLayer
from headway.model.size import Size


class CopyHead(OutputLayer):
    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight
        self.query, self.gate = nn.Linear(weight.size(1), weight.size(1)), nn.Linear(weight.size(1), 1)

    def forward(self, hidden: Float[Tensor, "n t d"], source: EncodedSource = NO_SOURCE) -> Float[Tensor, "n t v"]:
        memory, ids = source.memories[-1], source.batch
        assert memory.mask.keys is not None and isinstance(ids, Tensor)
        beam = len(hidden) // len(source)
        x, real, ids = (one.repeat_interleave(beam, dim=0) for one in (memory.x, memory.mask.keys, ids))
        attention = (self.query(hidden) @ x.mT).masked_fill(~real[:, None], -torch.inf).softmax(dim=-1)
        words = F.linear(hidden, self.weight).softmax(dim=-1)
        copied = torch.zeros_like(words).scatter_add(-1, ids[:, None].expand_as(attention), attention)
        share = self.gate(hidden).sigmoid()
        return (share * copied + (1 - share) * words).log()


@dataclass(frozen=True)
class Copy:
    """A mixture of the vocabulary and the words of the source."""

    kind: Literal["copy"] = "copy"

    def build(self, size: Size, weight: nn.Parameter, bias: bool) -> OutputLayer:
        return CopyHead(weight)
