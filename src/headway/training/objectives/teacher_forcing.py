"""Maximum likelihood: every label is predicted from the true labels before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import Int
from torch import Tensor

from headway.training.forward_pass import ForwardPass, Sums
from headway.training.objectives.base import Objective


class TeacherForcingObjective(Objective):
    """Cross-entropy with label smoothing (section 5.4)."""

    def __init__(self, label_smoothing: float) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing

    def forward(self, model: ForwardPass, batch: Any, step: Int[Tensor, ""]) -> Sums:  # noqa: ARG002
        return model(batch).loss(self.label_smoothing)


@dataclass(frozen=True)
class TeacherForcing:
    """Maximum likelihood: cross-entropy with the true labels, with label smoothing."""

    kind: Literal["teacher_forcing"] = "teacher_forcing"
    label_smoothing: float = 0.1  # share of the target's probability that is spread over all labels, from 0 to below 1

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing is {self.label_smoothing}; it must be at least 0 and less than 1")

    def build(self) -> Objective:
        return TeacherForcingObjective(self.label_smoothing)
