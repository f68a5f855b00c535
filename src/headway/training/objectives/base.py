"""The seam of the objectives: what training minimises."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Int
from torch import Tensor, nn

from headway.training.forward_pass import ForwardPass, Sums


class Objective(nn.Module):
    """Computes the loss of a batch: `(model, batch, step)` to the sums (total, nll, count).

    - `model(batch)` is one forward pass, or two with R-Drop, and gives predictions with a loss. `model.model` is the
      model itself, for an objective that searches (minimum risk) or looks at attention weights (guided attention).
    - `batch` is a named tuple of the task's tensors. An objective that changes the inputs (scheduled sampling) calls
      `model(batch._replace(inputs=...))`.
    - `step` is the number of the training step, a tensor on the device, so that captured CUDA graphs read it anew.
    - Random numbers come from torch's default generators. The engine seeds them before every step from the seed of the
      run, the step and the rank, so a resumed run draws the same numbers.
    """

    capturable: ClassVar[bool] = True  # False where `forward` waits for the device, as a search does: no CUDA graphs

    def forward(self, model: ForwardPass, batch: Any, step: Int[Tensor, ""]) -> Sums:
        raise NotImplementedError


class BatchLoss(nn.Module):
    """Model and objective in one module, which DDP, FSDP and torch.compile wrap."""

    def __init__(self, model: ForwardPass, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, step: Int[Tensor, ""], *tensors: Tensor) -> Sums:
        return self.objective(self.model, self.model.batch(*tensors), step)
