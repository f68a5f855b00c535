"""The model on CUDA in half precision, every step a recorded graph."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import torch
from jaxtyping import Int
from torch import Tensor

from headway.engines.cuda.captured_beam import CapturedBeam
from headway.model.decoders import TransformerDecoder
from headway.model.models import EncoderDecoder
from headway.search import Beam, Greedy, Hypothesis, Search
from headway.search.logits_processors import Shape


class CudaEngine:
    """Greedy and beam search are replayed; whatever else is asked runs as PyTorch runs it."""

    name = "cuda"
    workers = 2  # one batch is on the card while another is made ready or read back
    most = 4  # searches whose recordings are kept; each holds memory for its shapes

    def __init__(self, model: EncoderDecoder, precision: str = "bf16") -> None:
        self.precision = precision
        self.model = model.to(torch.bfloat16 if precision == "bf16" else torch.float32).eval()
        self.recorded: dict[Beam, CapturedBeam] = {}
        self.busy = Lock()  # recordings and the card serve one batch at a time

    def translate(
        self, source: Int[Tensor, "b s"], search: Search, shapes: Sequence[Shape] = ()
    ) -> list[list[Hypothesis]]:
        beam = as_beam(search)
        recordable = isinstance(self.model.decoder, TransformerDecoder)
        if beam is None or not recordable or shapes or beam.limits.shapes(source):
            with self.busy, torch.cuda.device_of(self.model.head.weight):
                return search(self.model, source.to(self.model.head.weight.device, non_blocking=True), shapes)
        return self.captured(beam)(source)

    def captured(self, beam: Beam) -> CapturedBeam:
        with self.busy:
            if beam not in self.recorded:
                while len(self.recorded) >= self.most:
                    self.recorded.pop(next(iter(self.recorded)))  # the oldest
                self.recorded[beam] = CapturedBeam(self.model, beam, busy=self.busy)
            return self.recorded[beam]


def as_beam(search: Search) -> Beam | None:
    """Greedy search is a beam of one; other searches have no recording."""
    if isinstance(search, Greedy):
        return Beam(size=1, alpha=search.alpha, limits=search.limits)
    return search if isinstance(search, Beam) else None
