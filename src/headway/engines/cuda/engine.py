"""The model on CUDA in half precision, every step a recorded graph."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import torch
from jaxtyping import Int
from torch import Tensor

from headway.engines.base import as_beam, unsupported_search
from headway.engines.cuda.captured_beam import CapturedBeam
from headway.model.design import Design, EncoderDecoderDesign
from headway.model.models import EncoderDecoder
from headway.model.plain_design import other_part
from headway.search import Beam, Hypothesis, Search
from headway.search.logits_processors import LogitsProcessor


def unsupported(
    design: Design, search: Search | None = None, logits_processors: Sequence[LogitsProcessor] = ()
) -> str | None:
    """Why a model of this design, or this search, cannot be recorded as CUDA graphs, or None if it can."""
    if not isinstance(design, EncoderDecoderDesign):
        return f"recorded steps are those of encoder-decoders, this is {design.__class__.__name__}"
    if (part := other_part(design)) is not None:
        return f"the recorded step has no {part}"
    return unsupported_search(search, logits_processors)


class CudaEngine:
    """Greedy and beam search replay recorded graphs; what `unsupported` names runs step by step in PyTorch."""

    name = "cuda"
    workers = 2  # one batch is on the card while another is made ready or read back
    most = 4  # searches whose recordings are kept; each holds memory for its shapes of batches

    def __init__(self, model: EncoderDecoder, design: Design, precision: str = "bf16") -> None:
        self.design, self.precision = design, precision
        self.model = model.to(torch.bfloat16 if precision == "bf16" else torch.float32).eval()
        self.recorded: dict[Beam, CapturedBeam] = {}
        self.busy = Lock()  # recordings and the card serve one batch at a time

    def translate(
        self, source: Int[Tensor, "b s"], search: Search, logits_processors: Sequence[LogitsProcessor] = ()
    ) -> list[list[Hypothesis]]:
        beam = as_beam(search)
        if beam is None or unsupported(self.design, search, logits_processors):
            with self.busy, torch.cuda.device_of(self.model.head.weight):
                return search(
                    self.model, source.to(self.model.head.weight.device, non_blocking=True), logits_processors
                )
        return self.captured(beam)(source)

    def captured(self, beam: Beam) -> CapturedBeam:
        with self.busy:
            if beam not in self.recorded:
                while len(self.recorded) >= self.most:
                    self.recorded.pop(next(iter(self.recorded)))  # the oldest
                self.recorded[beam] = CapturedBeam(self.model, beam, busy=self.busy)
            return self.recorded[beam]
