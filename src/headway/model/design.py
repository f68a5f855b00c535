"""Designs of models as data, and the one place where their parts are put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar, cast

import torch
from torch import nn

from headway.model.attention import Attention
from headway.model.blocks import DecoderBlock, EncoderBlock
from headway.model.dropout import Dropout
from headway.model.embedding import Embedding, PairedEmbedding
from headway.model.feed_forward import FeedForward, Relu
from headway.model.heads.vocabulary import VocabularyHead
from headway.model.initialisation import initialise
from headway.model.kernels import Fused, Mixing
from headway.model.models import EncoderDecoder, LanguageModel, TextEncoder
from headway.model.norms import LayerNorm, Norm
from headway.model.positions import NoPositions, Position, Positions, Sinusoidal
from headway.model.residuals import Post, Residual
from headway.model.size import Size, check_range, check_share
from headway.model.stacks import Decoder, Encoder, Stack

S = TypeVar("S", bound=Stack)

LARGEST = {"layers": 100, "width": 16_384, "vocabulary": 1_000_000, "longest": 1_000_000}


@dataclass(frozen=True)
class Design:
    """The settings of layers, which all kinds of models share."""

    section: ClassVar[bool] = True

    width: int = 512  # width of the vectors between layers (d_model)
    heads: int = 8  # number of attention heads per layer
    key_heads: int | None = None  # key and value heads; fewer than heads: grouped-query attention; unset: as many
    head_width: int | None = None  # width of one head; unset: width / heads
    feed_forward: FeedForward = Relu()  # feed-forward layer: relu, gelu, swish or swiglu
    positions: Position = Sinusoidal()  # none, sinusoidal, learned, rotary, alibi, bucketed, transformer_xl or tener
    attention: Mixing = Fused()  # attention kernel: fused, softmax (plain PyTorch), linear or linformer
    norm: Norm = LayerNorm()  # layer, rms or batch
    residual: Residual = Post()  # post (the paper's), pre, sandwich, deep or rezero
    dropout: float = 0.1  # dropout probability on the output of every sublayer and on the embeddings
    attention_dropout: float = 0.0  # dropout probability on attention weights
    embedding_dropout: float | None = None  # dropout probability on the embeddings; unset: the same as dropout
    locked_dropout: bool = False  # drop the same features at every position of a sequence
    bias: bool = True  # whether attention and feed-forward layers have biases
    scale_embedding: bool = True  # multiply embeddings by the square root of width
    output_bias: bool = False  # whether the output layer has a bias
    initial_gain: float = 1.0  # factor on the initial weights of sublayers; below 1 eases training of post-norm models
    longest: int = 1024  # maximum sequence length, for learned positions and linformer

    def __post_init__(self) -> None:
        check_range("width", self.width, 1, LARGEST["width"])
        check_range("heads", self.heads, 1, self.width)
        check_range("longest", self.longest, 1, LARGEST["longest"])
        check_range("key_heads", 1 if self.key_heads is None else self.key_heads, 1, self.heads)
        check_range("head_width", 1 if self.head_width is None else self.head_width, 1, LARGEST["width"])
        if self.head_width is None and self.width % self.heads:
            raise ValueError(
                f"width is {self.width} and heads is {self.heads}: width must be a multiple of heads, or set head_width"
            )
        check_share("dropout", self.dropout)
        check_share("attention_dropout", self.attention_dropout)
        check_share("embedding_dropout", self.embedding_dropout or 0.0)
        check_range("initial_gain", self.initial_gain, 0, 10)

    def size(self, encoder_layers: int = 0, decoder_layers: int = 0) -> Size:
        return Size(
            width=self.width,
            heads=self.heads,
            key_heads=self.key_heads or self.heads,
            head_width=self.head_width or self.width // self.heads,
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
            longest=self.longest,
        )

    def embedding(self, vocabulary: int) -> Embedding:
        return Embedding(vocabulary, self.width, self.scale_embedding)

    @property
    def on_embeddings(self) -> float:
        return self.dropout if self.embedding_dropout is None else self.embedding_dropout

    def drop(self, share: float) -> Dropout:
        return Dropout(share, self.locked_dropout)

    def gain(self, size: Size, decoder: bool) -> float:
        return self.initial_gain * self.residual.gain(size, decoder)


@dataclass(frozen=True)
class EncoderDecoderDesign(Design):
    """The paper's model: an encoder reads, a decoder writes."""

    kind: Literal["encoder_decoder"] = "encoder_decoder"
    encoder_layers: int = 6  # number of encoder layers
    decoder_layers: int = 6  # number of decoder layers
    encoder_attention: Mixing | None = None  # attention kernel of the encoder; unset: the same as attention
    cross_attention: Mixing = Fused()  # kernel of the cross-attention: fused, softmax, linear or linformer
    tie_embeddings: Literal["all", "output", "none"] = "all"  # all: one matrix for source, target and output
    attended_layers: Literal["last", "each"] | tuple[int, ...] = "last"  # encoder layers of cross-attention

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("encoder_layers", self.encoder_layers, 1, LARGEST["layers"])
        check_range("decoder_layers", self.decoder_layers, 1, LARGEST["layers"])
        self.read_layers()
        check_pair(self.positions, self.attention, self.size(), causal=True)
        check_pair(self.positions, self.encoder_attention or self.attention, self.size(), causal=False)
        check_pair(NoPositions(), self.cross_attention, self.size(), causal=False)

    def read_layers(self) -> tuple[int, ...]:
        """For every decoder layer, the encoder layer it looks at."""
        last = self.encoder_layers - 1
        if self.attended_layers == "last":
            return (last,) * self.decoder_layers
        if self.attended_layers == "each":
            return tuple(min(layer, last) for layer in range(self.decoder_layers))
        given = self.attended_layers
        if len(given) != self.decoder_layers or not all(0 <= layer <= last for layer in given):
            raise ValueError(
                f"attended_layers is {list(given)}; it needs one encoder layer from 0 to {last} "
                f"for each of {self.decoder_layers} decoder layers"
            )
        return tuple(given)

    def build(self, source_vocabulary: int, target_vocabulary: int | None = None) -> EncoderDecoder:
        target_vocabulary = target_vocabulary or source_vocabulary
        size = self.size(self.encoder_layers, self.decoder_layers)
        embeddings, head = self.vocabularies(source_vocabulary, target_vocabulary)
        encoder = encoder_stack(self, size, self.encoder_layers, self.encoder_attention or self.attention)
        decoder = decoder_stack(self, size, self.cross_attention)
        model = EncoderDecoder(embeddings, encoder, decoder, head, self.read_layers())
        initialise(model, {encoder: self.gain(size, False), decoder: self.gain(size, True)})
        return model

    def vocabularies(self, source: int, target: int) -> tuple[tuple[Embedding, Embedding], VocabularyHead]:
        check_range("vocabulary", source, 1, LARGEST["vocabulary"])
        check_range("vocabulary", target, 1, LARGEST["vocabulary"])
        if self.tie_embeddings == "all" and source != target:
            raise ValueError(
                f'tie_embeddings = "all" needs one vocabulary for both sides, not {source} and {target}; '
                'learn it jointly, or set tie_embeddings = "output"'
            )
        written = self.embedding(target)
        read = written if self.tie_embeddings == "all" else self.embedding(source)
        return (read, written), output_head(written, self.tie_embeddings != "none", self.output_bias)


@dataclass(frozen=True)
class LanguageModelDesign(Design):
    """A language model: one stack with causal attention."""

    kind: Literal["language_model"] = "language_model"
    layers: int = 6  # number of layers
    memory: int = 0  # tokens of earlier segments that are attended to (Transformer-XL); 0: none
    tie_embeddings: bool = True  # the output uses the embedding's matrix
    head_dropout: float = 0.0  # dropout probability in front of the output layer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("head_dropout", self.head_dropout)
        check_range("layers", self.layers, 1, LARGEST["layers"])
        check_range("memory", self.memory, 0, LARGEST["longest"])
        check_pair(self.positions, self.attention, self.size(), causal=True)

    def build(self, vocabulary: int) -> LanguageModel:
        check_range("vocabulary", vocabulary, 1, LARGEST["vocabulary"])
        size = self.size(decoder_layers=self.layers)
        embedding = self.embedding(vocabulary)
        stack = encoder_stack(self, size, self.layers, self.attention)
        head, dropout = output_head(embedding, self.tie_embeddings, self.output_bias), self.drop(self.head_dropout)
        model = LanguageModel(embedding, stack, head, dropout, self.memory)
        initialise(model, {stack: self.gain(size, True)})
        return model


@dataclass(frozen=True)
class TextEncoderDesign(Design):
    """An encoder: one stack with attention in both directions, for tagging and classification."""

    kind: Literal["encoder"] = "encoder"
    layers: int = 6  # number of layers
    bigram_buckets: int = 0  # buckets of a hashed table of bigram embeddings, added to the token embeddings; 0: none

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("layers", self.layers, 1, LARGEST["layers"])
        check_range("bigram_buckets", self.bigram_buckets, 0, LARGEST["vocabulary"])
        check_pair(self.positions, self.attention, self.size(), causal=False)

    def embedding(self, vocabulary: int) -> Embedding:
        if not self.bigram_buckets:
            return super().embedding(vocabulary)
        return PairedEmbedding(vocabulary, self.width, self.scale_embedding, self.bigram_buckets)

    def build(self, vocabulary: int) -> TextEncoder:
        check_range("vocabulary", vocabulary, 1, LARGEST["vocabulary"])
        size = self.size(encoder_layers=self.layers)
        stack = encoder_stack(self, size, self.layers, self.attention)
        model = TextEncoder(self.embedding(vocabulary), stack)
        initialise(model, {stack: self.gain(size, False)})
        return model


Model = EncoderDecoderDesign | LanguageModelDesign | TextEncoderDesign

# ---------------------------------------------------------------- assembly


def encoder_stack(design: Design, size: Size, layers: int, mixing: Mixing) -> Encoder:
    decoder = size.encoder_layers == 0
    shared = design.positions.build(size)

    def block() -> nn.Module:
        attention = attend(design, size, layer_positions(design, size, shared), mixing)
        feed = design.feed_forward.build(size, design.bias, design.drop)
        return EncoderBlock(attention, feed, around(design, size, 2, decoder))

    return finish(Encoder, design, shared, [block() for _ in range(layers)])


def decoder_stack(design: Design, size: Size, cross: Mixing) -> Decoder:
    shared = design.positions.build(size)

    def block() -> nn.Module:
        own = attend(design, size, layer_positions(design, size, shared), design.attention)
        source = attend(design, size, NoPositions().build(size), cross)
        feed = design.feed_forward.build(size, design.bias, design.drop)
        return DecoderBlock(own, source, feed, around(design, size, 3, decoder=True))

    return finish(Decoder, design, shared, [block() for _ in range(size.decoder_layers)])


def finish(kind: type[S], design: Design, shared: Positions, blocks: list[nn.Module]) -> S:
    last_norm = design.norm.build(design.width) if design.residual.last_norm else None
    bottom = Positions() if shared.per_layer else shared
    return kind(bottom, blocks, last_norm, design.drop(design.on_embeddings))


def layer_positions(design: Design, size: Size, shared: Positions) -> Positions:
    """A layer's own, the stack's, or none where they were added to the embeddings at the bottom."""
    if shared.per_layer:
        return design.positions.build(size)
    return shared if shared.adds_bias or shared.rotates else Positions()


def attend(design: Design, size: Size, positions: Positions, mixing: Mixing) -> Attention:
    return Attention(size, positions, mixing.build(size, design.attention_dropout), design.bias)


def around(design: Design, size: Size, count: int, decoder: bool) -> list[nn.Module]:
    return [design.residual.build(design.norm, size, design.drop(design.dropout), decoder) for _ in range(count)]


def output_head(embedding: Embedding, tied: bool, bias: bool) -> VocabularyHead:
    table = cast(nn.Parameter, embedding.weight)
    return VocabularyHead(table if tied else nn.Parameter(table.detach().clone()), bias)


def check_pair(position: Position, mixing: Mixing, size: Size, causal: bool) -> None:
    reason = objection(position, mixing, size, causal)
    if reason is not None:
        raise ValueError(reason)


def objection(position: Position, mixing: Mixing, size: Size, causal: bool) -> str | None:
    """Why this pair would be wrong, or None."""
    with torch.device("meta"):  # no memory, no random numbers
        positions, kernel = position.build(size), mixing.build(size, 0.0)
    if positions.adds_bias and not kernel.biased:
        return f"{mixing.kind} attention cannot use {position.kind} positions: they add a bias to scores"
    if positions.rotates and not kernel.rotated:
        because = "they rotate queries and keys, and its weights do not depend on the angle alone"
        return f"{mixing.kind} attention cannot use {position.kind} positions: {because}"
    if causal and not kernel.causal:
        return f"{mixing.kind} attention cannot hide the future; use it in the encoder (encoder_attention)"
    if positions.scaled is not None and positions.scaled != kernel.scaled:
        need = "divides scores by the root of the head width" if positions.scaled else "leaves scores unscaled"
        hint = f'attention = {{ kind = "fused", scaled = {str(positions.scaled).lower()} }}'
        return f"{position.kind} positions need attention that {need}: set {hint}"
    return None
