"""Small models of many designs for testing engines, and what it means that two engines say the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from headway.data.padding import pad_rows
from headway.model.design import EncoderDecoderDesign
from headway.model.feed_forward import Gelu, Relu, Swiglu, Swish
from headway.model.kernels import Fused, Linear, Linformer, Softmax
from headway.model.kernels.scores import Additive, Cosine, Dot
from headway.model.models import EncoderDecoder
from headway.model.norms import BatchNorm, RMSNorm
from headway.model.positions import Alibi, Bucketed, Learned, NoPositions, Rotary, Tener, TransformerXL
from headway.model.residuals import DeepNorm, Pre, ReZero, Sandwich
from headway.search import Beam, Greedy, Hypothesis, Limits
from headway.text.vocabulary import EOS

WORDS = 83
SHORT = Limits(ratio=1.0, extra=5, longest=12)
SEARCHES = [
    Greedy(limits=SHORT),
    Beam(size=4, n_best=3, alpha=0.8, limits=SHORT),
    Beam(size=3, patience=1.0, limits=SHORT),
]

DESIGNS: dict[str, EncoderDecoderDesign] = {
    "paper": EncoderDecoderDesign(width=32, heads=2, encoder_layers=2, decoder_layers=2, output_bias=True),
    "odd sizes": EncoderDecoderDesign(
        width=30, heads=3, feed_forward=Relu(width=70), encoder_layers=1, decoder_layers=3, tie_embeddings="none",
        output_bias=True,
    ),
    "modern": EncoderDecoderDesign(
        width=48, heads=6, key_heads=2, feed_forward=Swiglu(), positions=Rotary(), norm=RMSNorm(), residual=Pre(),
        bias=False, encoder_layers=2, decoder_layers=1, scale_embedding=False, output_bias=True,
    ),
    "learned": EncoderDecoderDesign(
        width=64, heads=4, feed_forward=Gelu(), positions=Learned(), residual=Pre(), encoder_layers=3, decoder_layers=2,
        tie_embeddings="output", longest=40,
    ),
    "deep": EncoderDecoderDesign(
        width=32, heads=2, feed_forward=Swish(), positions=Alibi(), residual=DeepNorm(), encoder_layers=3,
        decoder_layers=2, attended_layers="each",
    ),
    "rezero": EncoderDecoderDesign(
        width=32, heads=2, head_width=20, feed_forward=Gelu(tanh=True), positions=Bucketed(), residual=ReZero(),
        encoder_layers=2, decoder_layers=3, attended_layers=(1, 0, 1), output_bias=True,
    ),
    "no positions": EncoderDecoderDesign(
        width=16, heads=1, positions=NoPositions(), attention=Softmax(score=Dot()), encoder_layers=1, decoder_layers=1,
        encoder_attention=Fused(scaled=False),
    ),
}  # fmt: skip

UNSUPPORTED = {
    "sandwich residual": EncoderDecoderDesign(width=16, heads=2, residual=Sandwich()),
    "batch norm": EncoderDecoderDesign(width=16, heads=2, norm=BatchNorm()),
    "transformer_xl positions": EncoderDecoderDesign(width=16, heads=2, positions=TransformerXL()),
    "tener positions": EncoderDecoderDesign(
        width=16, heads=2, positions=Tener(), attention=Fused(scaled=False)
    ),
    "linear attention": EncoderDecoderDesign(width=16, heads=2, attention=Linear()),
    "linformer attention": EncoderDecoderDesign(width=16, heads=2, encoder_attention=Linformer()),
    "softmax attention": EncoderDecoderDesign(width=16, heads=2, cross_attention=Softmax(score=Additive())),
    "softmax attention of this kind": EncoderDecoderDesign(width=16, heads=2, attention=Softmax(score=Cosine())),
}  # fmt: skip


def shaken(model: nn.Module) -> None:
    """Nothing is left at a value that would hide a fault, such as a gain of one."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * parameter.abs().mean().clamp(min=0.5) * torch.randn_like(parameter)
    model.eval()


def build_model(design: EncoderDecoderDesign, words: int | None = None) -> EncoderDecoder:
    """Some outputs end, and some do not."""
    model = design.build(words or WORDS, words or (WORDS if design.tie_embeddings == "all" else WORDS - 12))
    shaken(model)
    if model.head.bias is not None:
        with torch.no_grad():
            model.head.bias[EOS] = 2 * model.head.weight.std() * design.width**0.5
    return model


def sources(count: int = 7, longest: int = 11) -> Tensor:
    """Ragged sentences of pieces that every vocabulary here has."""
    lengths = [1, longest, *torch.randint(1, longest, (count - 2,)).tolist()]
    return pad_rows([[*torch.randint(4, WORDS - 12, (length,)).tolist(), EOS] for length in lengths], "cpu")


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in outputs] for outputs in found] == [[h.ids for h in outputs] for outputs in expected]
    for ours, theirs in zip(sum(found, []), sum(expected, []), strict=True):
        assert ours.finished == theirs.finished
        assert [ours.total, ours.score] == pytest.approx([theirs.total, theirs.score], rel=1e-4, abs=1e-4)
        assert ours.token_scores == pytest.approx(theirs.token_scores, rel=1e-4, abs=1e-4)
