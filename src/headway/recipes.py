"""The papers' tables as functions: sizes that are known to work together."""

from __future__ import annotations

from headway.model.design import EncoderDecoderDesign, LanguageModelDesign, TextEncoderDesign
from headway.model.feed_forward import Gelu, Relu, Swiglu
from headway.model.kernels import Fused
from headway.model.norms import RMSNorm
from headway.model.positions import Learned, Rotary, Tener, TransformerXL
from headway.model.residuals import Pre


def base() -> EncoderDecoderDesign:
    """Vaswani et al. 2017, table 3, base."""
    return EncoderDecoderDesign(width=512, heads=8, feed_forward=Relu(width=2048), dropout=0.1)


def big() -> EncoderDecoderDesign:
    """Vaswani et al. 2017, table 3, big."""
    return EncoderDecoderDesign(width=1024, heads=16, feed_forward=Relu(width=4096), dropout=0.3)


def tiny() -> EncoderDecoderDesign:
    """For corpora of tens of thousands of sentences (Wu et al. 2021 on Multi30k)."""
    return EncoderDecoderDesign(
        width=128, heads=4, feed_forward=Relu(width=256), encoder_layers=4, decoder_layers=4, dropout=0.3
    )


def small() -> EncoderDecoderDesign:
    """Three layers each, for two CPU cores."""
    return EncoderDecoderDesign(
        width=256, heads=4, feed_forward=Relu(width=1024), encoder_layers=3, decoder_layers=3, dropout=0.1
    )


def deep_encoder() -> EncoderDecoderDesign:
    """Twelve layers read, one writes: nearly base's quality at a fraction of the decoding time (Kasai et al. 2021)."""
    return EncoderDecoderDesign(
        width=512, heads=8, feed_forward=Relu(width=2048), encoder_layers=12, decoder_layers=1, residual=Pre()
    )


def llama(
    width: int = 4096, layers: int = 32, heads: int = 32, inner: int = 11_008, key_heads: int | None = None
) -> LanguageModelDesign:
    """Touvron et al. 2023; the defaults are the 7B model's (vocabulary 32,000)."""
    return LanguageModelDesign(
        width=width,
        layers=layers,
        heads=heads,
        key_heads=key_heads,
        feed_forward=Swiglu(width=inner),
        positions=Rotary(),
        norm=RMSNorm(),
        residual=Pre(),
        dropout=0.0,
        bias=False,
        scale_embedding=False,
        tie_embeddings=False,
        longest=2048,
    )


def gpt2(width: int = 768, layers: int = 12, heads: int = 12) -> LanguageModelDesign:
    """Radford et al. 2019; the defaults are the small model's (vocabulary 50,257)."""
    return LanguageModelDesign(
        width=width,
        layers=layers,
        heads=heads,
        feed_forward=Gelu(tanh=True),
        positions=Learned(),
        residual=Pre(),
        scale_embedding=False,
    )


def transformer_xl() -> LanguageModelDesign:
    """Dai et al. 2019, the base model for words: 16 layers, memory as long as a segment."""
    return LanguageModelDesign(
        width=410, heads=10, layers=16, feed_forward=Relu(width=2100), positions=TransformerXL(), memory=150
    )


def tener() -> TextEncoderDesign:
    """Yan et al. 2019: relative, direction-aware, unscaled attention for tagging."""
    return TextEncoderDesign(
        width=128,
        heads=8,
        layers=2,
        feed_forward=Relu(width=256),
        positions=Tener(),
        attention=Fused(scaled=False),
        dropout=0.15,
        scale_embedding=False,
    )


ENCODER_DECODERS = {"base": base, "big": big, "tiny": tiny, "small": small, "deep_encoder": deep_encoder}
LANGUAGE_MODELS = {"llama": llama, "gpt2": gpt2, "transformer_xl": transformer_xl}
ENCODERS = {"tener": tener}
ALL = ENCODER_DECODERS | LANGUAGE_MODELS | ENCODERS
