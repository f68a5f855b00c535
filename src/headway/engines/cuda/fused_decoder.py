"""A decoding step in as few launches as its products allow: what lies between two of them is one kernel.

For decoders made of the ordinary parts; `unsupported` says what keeps a model from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headway.engines.cuda.beam_buffers import Extent, Trellis
from headway.model.attention import Attention
from headway.model.blocks import DecoderBlock
from headway.model.decoders import TransformerDecoder
from headway.model.feed_forward import ReluLayer
from headway.model.kernels.fused import FusedKernel
from headway.model.models import EncoderDecoder
from headway.model.norms import RMS, Layer
from headway.model.outputs import VocabularyHead
from headway.model.positions import Positions
from headway.model.positions.learned import LearnedPositions
from headway.model.positions.sinusoidal import SinusoidalPositions
from headway.model.residuals import PostNorm, PreNorm
from headway.search.beam import Beam

try:  # on machines with Triton
    from headway.engines.cuda.add_norm import enter, join
    from headway.engines.cuda.beam_step import fits, settle
    from headway.engines.cuda.step_attention import own_attention, source_attention
except ImportError:
    enter = join = own_attention = source_attention = fits = settle = None

Vectors = Float[Tensor, "n d"]

HEAD_WIDTHS = (16, 32, 64, 128)
ADDED = (Positions, SinusoidalPositions, LearnedPositions)  # positions that at most add to the embedding


def unsupported(model: EncoderDecoder) -> str | None:
    """Return why this model's step cannot be fused, or None."""
    if type(model.decoder) is not TransformerDecoder:
        return f"a decoder of kind {type(model.decoder).__name__}"
    if type(model.head) is not VocabularyHead:
        return f"an output distribution of kind {type(model.head).__name__}"
    layers = list(blocks(model))
    residuals = [each for layer in layers for each in around(layer)]
    attentions = [each for layer in layers for each in (layer.self_attention, layer.cross_attention)]
    norms = [model.transformer.last_norm, *(getattr(each, "norm", None) for each in residuals)]
    if len({type(each) for each in residuals}) != 1 or type(residuals[0]) not in (PostNorm, PreNorm):
        return f"residuals of kind {type(residuals[0]).__name__}"
    if not all(type(norm) in (Layer, RMS, type(None)) for norm in norms):
        return f"norms of kind {type(norms[-1]).__name__}"
    if isinstance(residuals[0], PostNorm) and model.transformer.last_norm is not None:
        return "a last norm after norms"
    return next((reason for each in attentions if (reason := attention_unsupported(each))), None)


def attention_unsupported(attention: Attention) -> str | None:
    if type(attention.kernel) is not FusedKernel:
        return f"attention of kind {type(attention.kernel).__name__}"
    if type(attention.positions) not in ADDED:
        return f"positions of kind {type(attention.positions).__name__}"
    if attention.head_width not in HEAD_WIDTHS:
        return f"heads of width {attention.head_width}"
    return None


def blocks(model: EncoderDecoder) -> Iterable[DecoderBlock]:
    return cast("Iterable[DecoderBlock]", model.transformer.layers)


def around(layer: DecoderBlock) -> tuple[nn.Module, nn.Module, nn.Module]:
    return layer.around_self, layer.around_source, layer.around_feed


@dataclass(frozen=True)
class Join:
    """How a sublayer's output joins the stream, and the norm that follows it."""

    weight: float
    norm: Layer | RMS | None
    summed: bool  # the sum itself goes on, not its norm

    def __call__(self, stream: Vectors, new: Vectors) -> tuple[Vectors, Vectors]:
        assert join is not None
        return join(stream, new, self.weight, self.norm, self.summed)


def joins(model: EncoderDecoder) -> list[Join]:
    """One at the entrance and one after every sublayer; before a sublayer, the norm follows the sublayer above."""
    residuals = [each for layer in blocks(model) for each in around(layer)]
    norms = cast("list[Layer | RMS]", [each.norm for each in residuals])
    if isinstance(residuals[0], PostNorm):
        after = [Join(cast("PostNorm", each).weight, norm, False) for each, norm in zip(residuals, norms, strict=True)]
        return [Join(1.0, None, True), *after]
    last = cast("Layer | RMS | None", model.transformer.last_norm)
    return [Join(1.0, norm, True) for norm in (*norms, last)]


@dataclass
class Memory:
    """What the steps of one batch share, in tensors that never move."""

    own: list[Float[Tensor, "2 n g room e"]]  # keys and values that rows have written, layer by layer
    origin: Int[Tensor, "2 n room"]  # which row of its sentence wrote what a row reads; for even and odd steps
    source: list[Float[Tensor, "b s kv"]]  # keys and values of the sources, also of those that wait
    real: list[Tensor]  # where the source is no padding


class LeanWriter:
    """Reads sources and writes pieces, all of it on the device. Sentences may wait for a lane."""

    def __init__(self, model: EncoderDecoder, extent: Extent) -> None:
        self.model, self.extent = model, extent
        self.joins = joins(model)
        positions, table, room = model.transformer.positions, model.target_embedding.weight, extent.room
        pos = torch.arange(room + 1, device=table.device).clamp(max=(positions.longest or room) - 1)[None]
        self.places = positions.embed(table.new_zeros(1, room + 1, table.size(1)), pos)[0].contiguous()
        self.memory: Memory | None = None

    @staticmethod
    def can(model: EncoderDecoder, size: int) -> bool:
        """Whether a beam of this size can be written so."""
        if fits is None or not fits(size, len(model.head.weight)):
            return False
        return model.head.weight.is_cuda and unsupported(model) is None

    def read(self, source: Int[Tensor, "b s"]) -> None:
        memories, rows = self.model.encode(source).memories, self.extent.lanes * self.extent.size
        own, keys = [], []
        for layer, memory in zip(blocks(self.model), memories, strict=True):
            cross, itself = layer.cross_attention, layer.self_attention
            start = cross.query_width
            keys.append(F.linear(memory.x, cross.qkv.weight[start:], part(cross.qkv.bias, start, None)))
            own.append(memory.x.new_empty(2, rows, itself.key_heads, self.extent.room, itself.head_width))
        origin = torch.empty(2, rows, self.extent.room, dtype=torch.int32, device=source.device)
        self.memory = Memory(own, origin, keys, [cast("Tensor", memory.mask.keys) for memory in memories])

    def write(self, trellis: Trellis, search: Beam) -> None:
        assert self.memory is not None and settle is not None
        settle(self.logits(trellis, self.memory), trellis, self.memory.origin, search.enough)

    def logits(self, trellis: Trellis, memory: Memory) -> Float[Tensor, "n v"]:
        assert enter is not None
        embedding, (entrance, *after) = self.model.target_embedding, self.joins
        owner, step = trellis.owner, trellis.step
        stream, x = enter(trellis.last, step, owner, embedding.weight, embedding.scale, self.places, entrance.norm)
        joined = iter(after)
        for layer, cache, keys, real in zip(blocks(self.model), memory.own, memory.source, memory.real, strict=True):
            new = look_back(layer.self_attention, x, cache, memory.origin, owner, step)
            stream, x = next(joined)(stream, new)
            new = look_at_source(layer.cross_attention, x, keys, real, owner)
            stream, x = next(joined)(stream, new)
            stream, x = next(joined)(stream, think(layer.feed_forward, x))
        return self.model.head(x)


def look_back(attention: Attention, x: Vectors, cache: Tensor, origin: Tensor, owner: Tensor, step: Tensor) -> Vectors:
    assert own_attention is not None
    scale = cast("FusedKernel", attention.kernel).scale
    return attention.out(own_attention(attention.qkv(x), cache, origin, owner, step, attention.heads, scale))


def look_at_source(attention: Attention, x: Vectors, keys: Tensor, real: Tensor, owner: Tensor) -> Vectors:
    assert source_attention is not None
    scale, end = cast("FusedKernel", attention.kernel).scale, attention.query_width
    queries = F.linear(x, attention.qkv.weight[:end], part(attention.qkv.bias, 0, end))
    return attention.out(source_attention(queries, keys, real, owner, attention.heads, scale))


def think(feed_forward: nn.Module, x: Vectors) -> Vectors:
    """A rectifier costs nothing at the end of a product; other layers are run as they are."""
    if type(feed_forward) is ReluLayer and feed_forward.up.bias is not None:
        inner = torch._addmm_activation(feed_forward.up.bias, x, feed_forward.up.weight.t())
        return feed_forward.down(inner)
    return feed_forward(x[:, None])[:, 0]


def part(bias: Tensor | None, start: int, end: int | None) -> Tensor | None:
    return None if bias is None else bias[start:end]
