"""What a model looks like, as data. Each design builds its model."""

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
    encoder_layers: int = 6  # layers that read
    decoder_layers: int = 6  # layers that write
    encoder_attention: Mixing | None = None  # another kernel for the encoder; unset: the same
    cross_attention: Mixing = Fused()  # how the decoder reads the source: fused, softmax, linear or linformer
    tie: Literal["all", "output", "none"] = "all"  # one matrix for source, target and output (all), or the last two
    reads: Literal["last", "each"] | tuple[int, ...] = "last"  # encoder layer a decoder layer reads; each: its own
    inputs: Input = Tokens()  # what the encoder reads: tokens
    decoder: Decoder = Transformer()  # what writes the target: transformer
    output: Output = Vocabulary()  # distribution over the next token: vocabulary

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("encoder_layers", self.encoder_layers, 1, LARGEST["layers"])
        check_range("decoder_layers", self.decoder_layers, 1, LARGEST["layers"])
        self.read_layers()
        if self.tie == "all" and self.inputs.kind != "tokens":
            raise ValueError(f'tie = "all" needs token inputs, not {self.inputs.kind}; set tie = "output"')
        check_pair(self.positions, self.attention, self.size(), causal=True)
        check_pair(self.positions, self.encoder_attention or self.attention, self.size(), causal=False)
        check_pair(NoPositions(), self.cross_attention, self.size(), causal=False)

    def read_layers(self) -> tuple[int, ...]:
        """Return for every decoder layer the encoder layer that it attends to."""
        last = self.encoder_layers - 1
        if self.reads == "last":
            return (last,) * self.decoder_layers
        if self.reads == "each":
            return tuple(min(layer, last) for layer in range(self.decoder_layers))
        if len(self.reads) != self.decoder_layers or not all(0 <= layer <= last for layer in self.reads):
            raise ValueError(
                f"reads is {list(self.reads)}; it needs one encoder layer from 0 to {last} "
                f"for each of {self.decoder_layers} decoder layers"
            )
        return tuple(self.reads)

    def build(self, source_vocabulary: int, target_vocabulary: int | None = None) -> EncoderDecoder:
        target_vocabulary = target_vocabulary or source_vocabulary
        size = self.size(self.encoder_layers, self.decoder_layers)
        embeddings = self.embeddings(size, source_vocabulary, target_vocabulary)
        head = output_layer(self.output, size, embeddings[1], self.tie != "none", self.output_bias)
        encoder = encoder_stack(Encoder, self, size, self.encoder_layers, self.encoder_attention or self.attention)
        decoder = self.decoder.build(self, size, self.cross_attention)
        model = EncoderDecoder(embeddings, encoder, decoder, head, self.read_layers())
        initialise(model, {"encoder": self.gain(size, False), "decoder": self.gain(size, True)})
        return model

    def embeddings(self, size: Size, source: int, target: int) -> tuple[InputLayer, TokenEmbedding]:
        """Return what reads the source and what reads the target; they may be one."""
        if self.tie == "all" and source != target:
            raise ValueError(
                f'tie = "all" needs one vocabulary for both sides, not {source} and {target}; '
                'learn it jointly, or set tie = "output"'
            )
        check_range("vocabulary", source, 1, LARGEST["vocabulary"])
        written = self.embedding(target)
        return written if self.tie == "all" else self.inputs.build(size, source, self.scale_embedding), written


@dataclass(frozen=True)
class LanguageModelDesign(Design):
    """A decoder without a source."""

    kind: Literal["language_model"] = "language_model"
    layers: int = 6  # layers of the stack
    memory: int = 0  # tokens remembered from earlier segments (Transformer-XL)
    tie: bool = True  # the output uses the embedding's matrix
    head_dropout: float = 0.0  # on the vectors that the next token is predicted from
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
        head = output_layer(self.output, size, embedding, self.tie, self.output_bias)
        model = LanguageModel(embedding, stack, head, self.drop(self.head_dropout), self.memory)
        initialise(model, {"stack": self.gain(size, True)})
        return model


@dataclass(frozen=True)
class TextEncoderDesign(Design):
    """An encoder alone, for tagging and classification."""

    kind: Literal["encoder"] = "encoder"
    layers: int = 6  # layers of the stack
    pairs: int = 0  # rows of a table of bigram vectors, which are added to the embeddings; 0: no table
    inputs: Input = Tokens()  # what the encoder reads: tokens

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("layers", self.layers, 1, LARGEST["layers"])
        check_range("pairs", self.pairs, 0, LARGEST["vocabulary"])
        if self.pairs and self.inputs.kind != "tokens":
            raise ValueError(f"pairs need token inputs, not {self.inputs.kind}; set pairs = 0")
        check_pair(self.positions, self.attention, self.size(), causal=False)

    def build(self, vocabulary: int) -> TextEncoder:
        size = self.size(encoder_layers=self.layers)
        stack = encoder_stack(Encoder, self, size, self.layers, self.attention)
        model = TextEncoder(self.input_layer(size, vocabulary), stack)
        initialise(model, {"stack": self.gain(size, False)})
        return model

    def input_layer(self, size: Size, vocabulary: int) -> InputLayer:
        check_range("vocabulary", vocabulary, 1, LARGEST["vocabulary"])
        if self.pairs:
            return BigramEmbedding(vocabulary, self.width, self.scale_embedding, self.pairs)
        return self.inputs.build(size, vocabulary, self.scale_embedding)


ModelDesign = EncoderDecoderDesign | LanguageModelDesign | TextEncoderDesign


def output_layer(output: Output, size: Size, embedding: TokenEmbedding, tied: bool, bias: bool) -> OutputLayer:
    """Build an output distribution on the embedding's own matrix, or on a copy of it."""
    weight = embedding.weight
    return output.build(size, weight if tied else nn.Parameter(weight.detach().clone()), bias)
