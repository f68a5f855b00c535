"""A decoder: gated recurrent units that begin with the mean of the source, without attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.base_design import Design
from headway.model.blocks import MakeState
from headway.model.decoders.base import DecoderLayer, DecoderState
from headway.model.encoded import EncodedSource
from headway.model.inputs.base import Embedded
from headway.model.kernels import Mixing
from headway.model.size import Size

Vectors = Float[Tensor, "b t d"]


@dataclass
class GruState(DecoderState):
    hidden: Float[Tensor, "n l d"]

    def select_hypotheses(self, rows: Int[Tensor, "n"]) -> None:
        self.hidden = self.hidden[rows]


class GruDecoder(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width, width, layers, batch_first=True)

    def beginning(self, source: EncodedSource) -> Float[Tensor, "b l d"]:
        """Every layer begins with the mean of the source; without a source, with zeros."""
        layers, width = self.gru.num_layers, self.gru.hidden_size
        if not source.memories:
            return next(self.parameters()).new_zeros(1, layers, width)
        memory = source.memories[-1]
        assert memory.mask.keys is not None
        real = memory.mask.keys[..., None]
        return ((memory.x * real).sum(dim=1) / real.sum(dim=1))[:, None].expand(-1, layers, -1)

    def run(self, x: Vectors, hidden: Tensor) -> tuple[Vectors, Tensor]:
        hidden = hidden.repeat_interleave(len(x) // len(hidden), dim=0)
        out, hidden = self.gru(x, hidden.transpose(0, 1).contiguous())
        return out, hidden.transpose(0, 1)

    def forward(self, target: Embedded, source: EncodedSource) -> Vectors:
        return self.run(target.vectors, self.beginning(source))[0]

    def start(self, source: EncodedSource, make_state: MakeState) -> GruState:
        return GruState(source, self.beginning(source))

    def step(self, x: Vectors, state: DecoderState) -> Vectors:
        assert isinstance(state, GruState)
        out, state.hidden = self.run(x, state.hidden)
        return out


@dataclass(frozen=True)
class Gru:
    """Gated recurrent units, without attention."""

    kind: Literal["gru"] = "gru"
    keeps_memory: ClassVar[bool] = False

    def build(self, design: Design, size: Size, cross_attention: Mixing | None) -> DecoderLayer:
        return GruDecoder(size.width, size.decoder_layers)
