"""Which designs and searches the compiled kernel can compute."""

from __future__ import annotations

from collections.abc import Sequence

from headway.engines.base import as_beam, unsupported_search
from headway.model.design import Design, EncoderDecoderDesign
from headway.model.feed_forward import Gelu, Relu, Swiglu, Swish
from headway.model.kernels import Fused, Mixing, Softmax
from headway.model.kernels.scores import Dot, ScaledDot
from headway.model.norms import LayerNorm, RMSNorm
from headway.model.plain_design import other_part
from headway.model.positions import Alibi, Bucketed, Learned, NoPositions, Rotary, Sinusoidal
from headway.model.residuals import DeepNorm, Post, Pre, ReZero
from headway.search import Search
from headway.search.logits_processors import LogitsProcessor

FEEDS: dict[type, int] = {Relu: 0, Gelu: 1, Swish: 3, Swiglu: 4}  # as in kernel/model.h; GELU by tanh is 2
PLACES: dict[type, int] = {Post: 0, DeepNorm: 0, Pre: 1, ReZero: 2}
NORMS = (LayerNorm, RMSNorm)
POSITIONS = (NoPositions, Sinusoidal, Learned, Rotary, Alibi, Bucketed)
WIDEST_BEAM = 64  # its candidates are sorted by insertion


def unsupported(
    design: Design, search: Search | None = None, logits_processors: Sequence[LogitsProcessor] = ()
) -> str | None:
    """Why the kernel cannot compute models of this design or run this search by itself, or None if it can."""
    return unsupported_design(design) or unsupported_search(search, logits_processors) or unsupported_width(search)


def unsupported_width(search: Search | None) -> str | None:
    beam = None if search is None else as_beam(search)
    if beam and beam.size > WIDEST_BEAM:
        return f"the kernel's own search has beams of up to {WIDEST_BEAM}, this one is {beam.size} wide"
    return None


def unsupported_design(design: Design) -> str | None:
    if not isinstance(design, EncoderDecoderDesign):
        return f"the kernel runs encoder-decoders, this is {design.__class__.__name__}"
    if (part := other_part(design)) is not None:
        return f"the kernel has no {part}"
    parts = [
        ("feed_forward", design.feed_forward, tuple(FEEDS)),
        ("residual", design.residual, tuple(PLACES)),
        ("norm", design.norm, NORMS),
        ("positions", design.positions, POSITIONS),
    ]
    for name, part, known in parts:
        if not isinstance(part, known):
            return f"the kernel has no {part.kind} {name}"
    for mixing in mixings(design):
        if score_scale(mixing, 1) is None:
            return f"the kernel has no {mixing.kind} attention of this kind"
    return None


def mixings(design: EncoderDecoderDesign) -> tuple[Mixing, Mixing, Mixing]:
    """The attention of the encoder, of the decoder, and of the decoder to the encoder."""
    return design.encoder_attention or design.attention, design.attention, design.cross_attention


def score_scale(mixing: Mixing, head_width: int) -> float | None:
    """The factor of the dot products of queries and keys; None if scores are anything else."""
    if isinstance(mixing, Fused):
        return head_width**-0.5 if mixing.scaled else 1.0
    if isinstance(mixing, Softmax) and isinstance(mixing.score, ScaledDot | Dot):
        return head_width**-0.5 if mixing.score.scaled else 1.0
    return None
