"""What the designs of all kinds of models share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headway.model.dropout import Dropout
from headway.model.feed_forward import FeedForward, Relu
from headway.model.inputs import TokenEmbedding
from headway.model.kernels import Fused, Mixing
from headway.model.norms import LayerNorm, Norm
from headway.model.positions import Position, Sinusoidal
from headway.model.residuals import Post, Residual
from headway.model.size import Size, check_range, check_share

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

    def embedding(self, vocabulary: int) -> TokenEmbedding:
        check_range("vocabulary", vocabulary, 1, LARGEST["vocabulary"])
        return TokenEmbedding(vocabulary, self.width, self.scale_embedding)

    @property
    def on_embeddings(self) -> float:
        return self.dropout if self.embedding_dropout is None else self.embedding_dropout

    def drop(self, share: float) -> Dropout:
        return Dropout(share, self.locked_dropout)

    def gain(self, size: Size, decoder: bool) -> float:
        return self.initial_gain * self.residual.gain(size, decoder)
