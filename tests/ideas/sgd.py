"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = "sgd"

    def build(self, model: nn.Module, rate: float) -> torch.optim.Optimizer:
        return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=rate, fused=True)
