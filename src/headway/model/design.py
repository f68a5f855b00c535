"""Designs of models as data. Each design builds its model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from headway.model.assembly import check_pair, encoder_stack
from headway.model.base_design import LARGEST, Design
from headway.model.decoders import Decoder, Transformer
from headway.model.initialisation import initialise
from headway.model.inputs import BigramEmbedding, Input, InputLayer, TokenEmbedding, Tokens
from headway.model.kernels import Fused, Mixing
from headway.model.models import EncoderDecoder, LanguageModel, TextEncoder
from headway.model.outputs import Output, OutputLayer, Vocabulary
from headway.model.positions import NoPositions
from headway.model.size import Size, check_range, check_share
from headway.model.stacks import Encoder


@dataclass(frozen=True)
class EncoderDecoderDesign(Design):
    """The paper's model: an encoder reads the source, a decoder writes the target."""

    kind: Literal["encoder_decoder"] = "encoder_decoder"
    encoder_layers: int = 6  # number of encoder layers
    decoder_layers: int = 6  # number of decoder layers
    encoder_attention: Mixing | None = None  # attention kernel of the encoder; unset: the same as attention
    cross_attention: Mixing = Fused()  # kernel of the cross-attention: fused, softmax, linear or linformer
    tie_embeddings: Literal["all", "output", "none"] = "all"  # all: one matrix for source, target and output
    attended_layers: Literal["last", "each"] | tuple[int, ...] = "last"  # encoder layers of cross-attention
    inputs: Input = Tokens()  # what the encoder reads: tokens
    decoder: Decoder = Transformer()  # what writes the target: transformer
    output: Output = Vocabulary()  # distribution over the next token: vocabulary

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("encoder_layers", self.encoder_layers, 1, LARGEST["layers"])
        check_range("decoder_layers", self.decoder_layers, 1, LARGEST["layers"])
        self.read_layers()
        if self.tie_embeddings == "all" and self.inputs.kind != "tokens":
            raise ValueError(
                f'tie_embeddings = "all" needs token inputs, not {self.inputs.kind}; set tie_embeddings = "output"'
            )
        check_pair(self.positions, self.attention, self.size(), causal=True)
        check_pair(self.positions, self.encoder_attention or self.attention, self.size(), causal=False)
        check_pair(NoPositions(), self.cross_attention, self.size(), causal=False)

    def read_layers(self) -> tuple[int, ...]:
        """Return for every decoder layer the encoder layer that it attends to."""
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
        embeddings = self.embeddings(size, source_vocabulary, target_vocabulary)
        head = output_layer(self.output, size, embeddings[1], self.tie_embeddings != "none", self.output_bias)
        encoder = encoder_stack(Encoder, self, size, self.encoder_layers, self.encoder_attention or self.attention)
        decoder = self.decoder.build(self, size, self.cross_attention)
        model = EncoderDecoder(embeddings, encoder, decoder, head, self.read_layers())
        initialise(model, {"encoder": self.gain(size, False), "decoder": self.gain(size, True)})
        return model

    def embeddings(self, size: Size, source: int, target: int) -> tuple[InputLayer, TokenEmbedding]:
        """Return what reads the source and what reads the target; they may be one."""
        if self.tie_embeddings == "all" and source != target:
            raise ValueError(
                f'tie_embeddings = "all" needs one vocabulary for both sides, not {source} and {target}; '
                'learn it jointly, or set tie_embeddings = "output"'
            )
        check_range("vocabulary", source, 1, LARGEST["vocabulary"])
        written = self.embedding(target)
        if self.tie_embeddings == "all":
            return written, written
        return self.inputs.build(size, source, self.scale_embedding), written


@dataclass(frozen=True)
class LanguageModelDesign(Design):
    """A language model: one stack with causal attention."""

    kind: Literal["language_model"] = "language_model"
    layers: int = 6  # number of layers
    memory: int = 0  # tokens of earlier segments that are attended to (Transformer-XL); 0: none
    tie_embeddings: bool = True  # the output uses the embedding's matrix
    head_dropout: float = 0.0  # dropout probability in front of the output layer
    decoder: Decoder = Transformer()  # what reads and continues the text: transformer
    output: Output = Vocabulary()  # distribution over the next token: vocabulary

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("head_dropout", self.head_dropout)
        check_range("layers", self.layers, 1, LARGEST["layers"])
        check_range("memory", self.memory, 0, LARGEST["longest"])
        if self.memory and not self.decoder.keeps_memory:
            raise ValueError(f"a {self.decoder.kind} decoder keeps no memory of earlier segments; set memory = 0")
        check_pair(self.positions, self.attention, self.size(), causal=True)

    def build(self, vocabulary: int) -> LanguageModel:
        size = self.size(decoder_layers=self.layers)
        embedding = self.embedding(vocabulary)
        stack = self.decoder.build(self, size, cross_attention=None)
        head = output_layer(self.output, size, embedding, self.tie_embeddings, self.output_bias)
        model = LanguageModel(embedding, stack, head, self.drop(self.head_dropout), self.memory)
        initialise(model, {"stack": self.gain(size, True)})
        return model


@dataclass(frozen=True)
class TextEncoderDesign(Design):
    """An encoder: one stack with attention in both directions, for tagging and classification."""

    kind: Literal["encoder"] = "encoder"
    layers: int = 6  # number of layers
    bigram_buckets: int = 0  # buckets of a hashed table of bigram embeddings, added to the token embeddings; 0: none
    inputs: Input = Tokens()  # what the encoder reads: tokens

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("layers", self.layers, 1, LARGEST["layers"])
        check_range("bigram_buckets", self.bigram_buckets, 0, LARGEST["vocabulary"])
        if self.bigram_buckets and self.inputs.kind != "tokens":
            raise ValueError(f"bigram_buckets needs token inputs, not {self.inputs.kind}; set bigram_buckets = 0")
        check_pair(self.positions, self.attention, self.size(), causal=False)

    def build(self, vocabulary: int) -> TextEncoder:
        size = self.size(encoder_layers=self.layers)
        stack = encoder_stack(Encoder, self, size, self.layers, self.attention)
        model = TextEncoder(self.input_layer(size, vocabulary), stack)
        initialise(model, {"stack": self.gain(size, False)})
        return model

    def input_layer(self, size: Size, vocabulary: int) -> InputLayer:
        check_range("vocabulary", vocabulary, 1, LARGEST["vocabulary"])
        if self.bigram_buckets:
            return BigramEmbedding(vocabulary, self.width, self.scale_embedding, self.bigram_buckets)
        return self.inputs.build(size, vocabulary, self.scale_embedding)


ModelDesign = EncoderDecoderDesign | LanguageModelDesign | TextEncoderDesign


def output_layer(output: Output, size: Size, embedding: TokenEmbedding, tied: bool, bias: bool) -> OutputLayer:
    """Build an output distribution on the embedding's own matrix, or on a copy of it."""
    weight = embedding.weight
    return output.build(size, weight if tied else nn.Parameter(weight.detach().clone()), bias)
