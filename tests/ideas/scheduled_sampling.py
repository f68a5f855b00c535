"""The decoder reads its own predictions at a growing share of the positions (Bengio et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from headway.text.vocabulary import PAD
from headway.training.forward_pass import ForwardPass, Sums
from headway.training.objectives.base import Objective


class ScheduledSamplingObjective(Objective):
    def __init__(self, label_smoothing: float, steps: int) -> None:
        super().__init__()
        self.label_smoothing, self.steps = label_smoothing, steps

    def forward(self, model: ForwardPass, batch: Any, step: Tensor) -> Sums:
        with torch.no_grad():
            predictions: Any = model(batch)
            best = predictions.head(predictions.hidden[: len(batch.labels)]).argmax(dim=-1)
        own = torch.cat([batch.inputs[:, :1], best[:, :-1]], dim=1)
        chosen = torch.rand(own.shape, device=own.device) < step / self.steps
        mixed = torch.where(chosen & (batch.inputs != PAD), own, batch.inputs)
        return model(batch._replace(inputs=mixed)).loss(self.label_smoothing)


@dataclass(frozen=True)
class ScheduledSampling:
    """Scheduled sampling."""

    kind: Literal["scheduled_sampling"] = "scheduled_sampling"
    label_smoothing: float = 0.1
    steps: int = 10_000  # steps until all inputs are the model's own

    def build(self) -> Objective:
        return ScheduledSamplingObjective(self.label_smoothing, self.steps)
