"""The model itself, as PyTorch runs it: every design, every device, every search."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor, nn

from headway.model.design import Design
from headway.search import Hypothesis, Search, Stepper
from headway.search.logits_processors import LogitsProcessor


def unsupported(
    design: Design, search: Search | None = None, logits_processors: Sequence[LogitsProcessor] = ()
) -> None:
    """Returns None: PyTorch runs every design and every search."""


class TorchEngine:
    """Every other engine must say what this one says."""

    name = "torch"
    precision: str = "fp32"
    workers = 1  # PyTorch spreads its own work

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, Stepper):
            raise TypeError(f"{type(model).__name__} cannot be stepped through")
        model.eval()
        self.model: Stepper = model

    def translate(
        self, source: Int[Tensor, "b s"], search: Search, logits_processors: Sequence[LogitsProcessor] = ()
    ) -> list[list[Hypothesis]]:
        return search(self.model, source, logits_processors)
