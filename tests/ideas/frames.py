"""An input: frames of speech through a strided convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from headway.model.inputs.base import Embedded, Features, InputLayer
from headway.model.size import Size


class FrameInput(nn.Module):
    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(features, width, 3, stride=2, padding=1)

    def forward(self, batch: Features) -> Embedded:
        """Two frames become one vector."""
        values, lengths = batch.values, batch.lengths[:, None]
        real = torch.arange(values.size(1)) < lengths
        x = self.convolution((values * real[..., None]).transpose(1, 2)).transpose(1, 2)
        return Embedded(x, torch.arange(x.size(1)) < (lengths + 1) // 2)


@dataclass(frozen=True)
class Frames:
    """Frames of speech through a convolution that halves their number."""

    kind: Literal["frames"] = "frames"
    features: int = 80  # numbers in each frame

    def build(self, size: Size, vocabulary: int, scaled: bool) -> InputLayer:
        return FrameInput(self.features, size.width)
