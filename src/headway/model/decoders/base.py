"""The seam of the decoders: embedded targets and an encoded source go in, hidden vectors come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.model.blocks import MakeState
from headway.model.encoded import EncodedSource
from headway.model.inputs.base import Embedded

Vectors = Float[Tensor, "b t d"]


@dataclass
class DecoderState(ABC):
    """Hypotheses of a search: their source, and what a decoder has stored of each. The caller holds it.

    A sentence may have several hypotheses (a beam), which stand next to each other. The source is kept once for all
    of them. A decoder adds its own fields and says how hypotheses are selected.
    """

    source: EncodedSource
    beam: int = field(default=1, kw_only=True)  # hypotheses of each sentence

    @abstractmethod
    def select_hypotheses(self, rows: Int[Tensor, "n"]) -> None:
        """Keep these rows of the decoder's own fields: repeat, reorder or drop."""

    def select_source(self, sentences: Int[Tensor, "m"]) -> None:
        self.source = self.source.select(sentences)

    def select(self, rows: Int[Tensor, "n"]) -> None:
        """Keep these hypotheses: repeat, reorder or drop. Each of them then has a source of its own."""
        self.select_hypotheses(rows)
        self.select_source(rows // self.beam)
        self.beam = 1

    def reorder(self, rows: Int[Tensor, "n"]) -> None:
        """Replace hypothesis i by hypothesis rows[i] of the same sentence: the source need not move."""
        self.select_hypotheses(rows)
        self.beam = len(rows) // len(self.source) if len(self.source) else 1

    def keep(self, sentences: Int[Tensor, "m"], beam: int) -> None:
        """Drop all other sentences with all their hypotheses."""
        self.select_hypotheses((sentences[:, None] * beam + torch.arange(beam, device=sentences.device)).flatten())
        self.select_source(sentences)


@runtime_checkable
class DecoderLayer(Protocol):
    """A module that decodes. In a language model there is no source."""

    def __call__(self, target: Embedded, source: EncodedSource) -> Vectors:
        """Return the hidden vectors of all positions at once; position t may depend on targets up to t only."""
        ...

    def start(self, source: EncodedSource, make_state: MakeState) -> DecoderState:
        """Return the state before the first token. `make_state` makes storage for an attention layer's keys."""
        ...

    def step(self, x: Float[Tensor, "n t d"], state: DecoderState) -> Float[Tensor, "n t d"]:
        """Append embedded tokens to every hypothesis and return their hidden vectors.

        The first step may bring several hypotheses of each sentence. A sequence of steps, of one or more tokens each,
        gives what the forward pass gives at once.
        """
        ...
