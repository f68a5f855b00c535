"""A model's weights as the kernel takes them: padded to whole vectors, with constant factors multiplied in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headway.engines.base import Precision, Unavailable
from headway.engines.native.library import Array, Sizes
from headway.model.design import Design, EncoderDecoderDesign
from headway.model.feed_forward import FeedForward, Gelu, Relu, Swiglu, Swish
from headway.model.kernels import Fused, Mixing, Softmax
from headway.model.kernels.scores import Dot, ScaledDot
from headway.model.norms import LayerNorm, RMSNorm
from headway.model.plain_design import other_part
from headway.model.positions import Alibi, Bucketed, Learned, NoPositions, Rotary, Sinusoidal
from headway.model.residuals import DeepNorm, Post, Pre, ReZero
from headway.model.size import Size

FEEDS: dict[type, int] = {Relu: 0, Gelu: 1, Swish: 3, Swiglu: 4}  # as in kernel/model.h; GELU by tanh is 2
PLACES: dict[type, int] = {Post: 0, DeepNorm: 0, Pre: 1, ReZero: 2}
NORMS = (LayerNorm, RMSNorm)
POSITIONS = (NoPositions, Sinusoidal, Learned, Rotary, Alibi, Bucketed)
VECTOR, BLOCK = 16, 64  # widths of heads are multiples of the first, all others of the second
LEAST, MOST = 1024, 8192  # places in the tables of schemes that know no end
WIDEST = 1 << 16  # inputs of an int8 product, whose sum must fit in 32 bits


class Packed(NamedTuple):
    """Everything the kernel needs to know of a model."""

    sizes: Sizes
    tensors: list[Array | None]
    reads: Array  # for each decoder layer the encoder layer that it looks at


def unsupported(design: Design) -> str | None:
    """Return why the kernel cannot compute this model, or None."""
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
    """Of the encoder, of the decoder, and between them."""
    return design.encoder_attention or design.attention, design.attention, design.cross_attention


def score_scale(mixing: Mixing, head_width: int) -> float | None:
    """What scores are multiplied by, if that is all there is to it."""
    if isinstance(mixing, Fused):
        return head_width**-0.5 if mixing.scaled else 1.0
    if isinstance(mixing, Softmax) and isinstance(mixing.score, ScaledDot | Dot):
        return head_width**-0.5 if mixing.score.scaled else 1.0
    return None


def round_up(number: int, whole: int) -> int:
    return -(-number // whole) * whole


def pack(design: Design, tensors: Mapping[str, Tensor], precision: Precision) -> Packed:
    """Raises Unavailable where the kernel cannot express the model."""
    reason = unsupported(design)
    if reason is not None or not isinstance(design, EncoderDecoderDesign):
        raise Unavailable(reason or "")
    with torch.no_grad():
        return Packing(design, tensors, precision).run()


class Packing:
    """Walks through the model in the order of kernel/model.h."""

    def __init__(self, design: EncoderDecoderDesign, tensors: Mapping[str, Tensor], precision: Precision) -> None:
        self.design, self.tensors, self.precision = design, tensors, precision
        self.size = design.size(design.encoder_layers, design.decoder_layers)
        self.width = round_up(design.width, BLOCK)
        self.head_width = round_up(self.size.head_width, math.lcm(VECTOR, BLOCK // math.gcd(BLOCK, design.heads)))
        self.real_inner = tensors["encoder.layers.0.feed_forward.down.weight"].size(1)
        self.inner = round_up(self.real_inner, BLOCK)
        self.longest = places(design)
        self.used: set[str] = set()

    def run(self) -> Packed:
        widest = max(self.width, self.inner, self.design.heads * self.head_width)
        if self.precision == "int8" and widest > WIDEST:
            raise Unavailable(f"a layer has {widest} inputs, in int8 the kernel multiplies up to {WIDEST}")
        packed = [*self.side("encoder"), *self.side("decoder"), *self.head()]
        unknown = sorted(set(self.tensors) - self.used)
        if unknown:
            raise Unavailable(f"the kernel does not know what {unknown[0]} is for")
        arrays = [None if each is None else each.float().contiguous().numpy() for each in packed]
        return Packed(self.sizes(), arrays, np.array(self.design.read_layers(), np.int32))

    def sizes(self) -> Sizes:
        design = self.design
        return Sizes(
            encoder=design.encoder_layers,
            decoder=design.decoder_layers,
            width=self.width,
            features=design.width,
            heads=design.heads,
            head_width=self.head_width,
            inner=self.inner,
            source_words=len(self.tensors["source_embedding.weight"]),
            target_words=len(self.tensors["target_embedding.weight"]),
            longest=self.longest,
            feed=feed(design.feed_forward),
            place=PLACES[type(design.residual)],
            centred=isinstance(design.norm, LayerNorm),
            quantised=self.precision == "int8",
            scale=design.width**0.5 if design.scale_embedding else 1.0,
            epsilon=tuple(design.norm.epsilon / self.stream(side) ** 2 for side in ("encoder", "decoder")),
        )

    # ------------------------------------------------------------ the walk

    def side(self, side: str) -> Iterator[Tensor | None]:
        decoder = side == "decoder"
        yield self.columns(self.take("target_embedding.weight" if decoder else "source_embedding.weight"))
        yield from self.positions(side)
        for layer in range(self.design.decoder_layers if decoder else self.design.encoder_layers):
            yield from self.layer(f"{side}.layers.{layer}", side)
        yield from self.norm(f"{side}.last_norm")

    def layer(self, name: str, side: str) -> Iterator[Tensor | None]:
        own, around = f"{name}.self_attention", f"{name}.around_self"
        q, k, v = self.qkv(own, mixings(self.design)[side == "decoder"], self.rotates)
        yield from joined(q, k, v)
        yield from self.out(own, side, around)
        yield from self.norm(f"{around}.norm")
        if side == "decoder":
            cross, around = f"{name}.cross_attention", f"{name}.around_source"
            q, k, v = self.qkv(cross, self.design.cross_attention, False)
            yield from q
            yield from joined(k, v)
            yield from self.out(cross, side, around)
            yield from self.norm(f"{around}.norm")
        yield from self.feed(name, side)
        yield from self.norm(f"{name}.around_feed.norm")

    def head(self) -> Iterator[Tensor | None]:
        yield self.columns(self.take("head.weight"))
        yield self.take("head.bias") if "head.bias" in self.tensors else None

    # ------------------------------------------------------------ parts

    def take(self, name: str) -> Tensor:
        self.used.add(name)
        return self.tensors[name].detach().cpu().float()

    def linear(self, name: str) -> tuple[Tensor, Tensor | None]:
        return self.take(f"{name}.weight"), self.take(f"{name}.bias") if f"{name}.bias" in self.tensors else None

    def columns(self, weight: Float[Tensor, "n d"]) -> Float[Tensor, "n p"]:
        return F.pad(weight, (0, self.width - weight.size(1)))

    def qkv(self, name: str, mixing: Mixing, rotated: bool) -> list[tuple[Tensor, Tensor | None]]:
        """Weights and biases of queries, keys and values; every query head with a key head of its own."""
        weight, bias = self.linear(f"{name}.qkv")
        heads, keys, width = self.size.heads, self.size.key_heads, self.size.head_width
        counts, found = (heads, keys, keys), []
        halves = (rotated, rotated, False)
        scales = (score_scale(mixing, width) or 1.0, 1.0, 1.0)
        rows = [count * width for count in counts]
        biases = (None, None, None) if bias is None else bias[:, None].split(rows)
        for part, shift, count, half, scale in zip(weight.split(rows), biases, counts, halves, scales, strict=True):
            spread = [None if x is None else self.heads(x * scale, count, half) for x in (self.columns(part), shift)]
            found.append((spread[0], None if spread[1] is None else spread[1][:, 0]))
        return found

    def heads(self, rows: Float[Tensor, "n d"], count: int, halves: bool) -> Float[Tensor, "m d"]:
        """Heads made as wide as the kernel wants them; of turned ones each half, as its pairs lie half a head apart."""
        parts = 2 if halves else 1
        split = rows.unflatten(0, (count, parts, -1))
        wide = F.pad(split, (0, 0, 0, self.head_width // parts - split.size(2))).flatten(1, 2)
        return wide.repeat_interleave(self.size.heads // count, dim=0).flatten(0, 1)

    def out(self, name: str, side: str, around: str) -> Iterator[Tensor | None]:
        weight, bias = self.linear(f"{name}.out")
        by = self.share(side, around)
        yield self.rows(self.heads(weight.T, self.size.heads, False).T * by)
        yield None if bias is None else self.rows(bias[:, None] * by)[:, 0]

    def feed(self, name: str, side: str) -> Iterator[Tensor | None]:
        up, up_bias = self.linear(f"{name}.feed_forward.up")
        down, down_bias = self.linear(f"{name}.feed_forward.down")
        by = self.share(side, f"{name}.around_feed")
        yield self.inner_rows(self.columns(up))
        yield None if up_bias is None else self.inner_rows(up_bias[:, None])[:, 0]
        yield self.rows(F.pad(down, (0, self.inner - self.real_inner)) * by)
        yield None if down_bias is None else self.rows(down_bias[:, None] * by)[:, 0]

    def rows(self, weight: Float[Tensor, "d k"]) -> Float[Tensor, "p k"]:
        return F.pad(weight, (0, 0, 0, self.width - weight.size(0)))

    def inner_rows(self, weight: Float[Tensor, "f k"]) -> Float[Tensor, "g k"]:
        """A gated layer has two halves."""
        parts = weight.unflatten(0, (-1, self.real_inner))
        return F.pad(parts, (0, 0, 0, self.inner - self.real_inner)).flatten(0, 1)

    def norm(self, name: str) -> Iterator[Tensor | None]:
        for leaf in ("weight", "bias"):
            known = f"{name}.{leaf}" in self.tensors
            yield self.rows(self.take(f"{name}.{leaf}")[:, None])[:, 0] if known else None

    # ------------------------------------------------------------ factors

    def stream(self, side: str) -> float:
        """How much heavier the stream is than what a sublayer adds."""
        residual = self.design.residual
        return residual.constants(self.size, side == "decoder")[0] if isinstance(residual, DeepNorm) else 1.0

    def share(self, side: str, around: str) -> float:
        """A norm does not see the size of its input: a heavier stream is a lighter sublayer, and a smaller epsilon."""
        alpha = f"{around}.alpha"
        return self.take(alpha).item() if alpha in self.tensors else 1 / self.stream(side)

    # ------------------------------------------------------------ positions

    @property
    def rotates(self) -> bool:
        return isinstance(self.design.positions, Rotary)

    def positions(self, side: str) -> Iterator[Tensor | None]:
        """What is added to embeddings, how far heads are turned, and what distances add to scores."""
        scheme = self.design.positions.build(self.size)
        prefix = f"{side}.positions."
        scheme.load_state_dict({name: self.take(prefix + name) for name in scheme.state_dict()})
        self.used |= {n for n in self.tensors if ".self_attention.positions." in n and n.startswith(side)}
        at = torch.arange(self.longest)[None]
        added = scheme.embed(torch.zeros(1, self.longest, self.design.width), at)[0]
        yield self.columns(added) if added.any() else None
        yield turns(scheme.rotate, self.size, self.head_width, at) if scheme.rotates else None
        yield by_distance(scheme.bias, self.size, self.longest) if scheme.adds_bias else None


def feed(kind: FeedForward) -> int:
    return FEEDS[type(kind)] + (isinstance(kind, Gelu) and kind.tanh)


def places(design: EncoderDecoderDesign) -> int:
    """How many the tables hold: what was learned, or enough."""
    if isinstance(design.positions, Learned):
        return design.longest
    return min(max(design.longest, LEAST), MOST)


def turns(rotate, size: Size, width: int, at: Tensor) -> Float[Tensor, "t w"]:  # noqa: ANN001
    """Cosines, then sines: what becomes of the pair (1, 0)."""
    half = size.head_width // 2
    pairs = torch.cat([torch.ones(half), torch.zeros(half)]).expand(1, 1, at.size(1), -1)
    turned = rotate(pairs, at)[0, 0].unflatten(-1, (2, half))
    return F.pad(turned, (0, width // 2 - half)).flatten(1)


def by_distance(bias, size: Size, longest: int) -> Float[Tensor, "h n"]:  # noqa: ANN001
    """One query in the middle, and keys on all sides of it."""
    nothing = torch.zeros(1, size.heads, 2 * longest - 1, size.head_width)
    middle, keys = torch.full((1, 1), longest - 1), torch.arange(2 * longest - 1)[None]
    return bias(nothing[:, :, :1], nothing, middle, keys)[0, :, 0]


def joined(*parts: tuple[Tensor, Tensor | None]) -> Iterator[Tensor | None]:
    weights, biases = zip(*parts, strict=True)
    yield torch.cat(weights)
    yield None if None in [b if b is None else 0 for b in biases] else torch.cat(biases)
