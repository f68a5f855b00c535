"""Designs rewritten with simpler parts, for other engines and formats; and parts that these do not know."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from headway.model.base_design import Design
from headway.model.decoders import Transformer
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign
from headway.model.inputs import Tokens
from headway.model.kernels import Fused, Mixing, Softmax
from headway.model.kernels.scores import Dot, ScaledDot
from headway.model.outputs import Vocabulary
from headway.model.residuals import DeepNorm, Post
from headway.storage.weights import NamedTensors

Exportable = EncoderDecoderDesign | LanguageModelDesign

SAME_AS: dict[Mixing, Mixing] = {Softmax(score=ScaledDot()): Fused(), Softmax(score=Dot()): Fused(scaled=False)}

THE_PAPERS = {"inputs": Tokens, "decoder": Transformer, "output": Vocabulary}


def other_part(design: Design) -> str | None:
    """Return the kind and the key of a part that only Headway's own modules compute, or None."""
    for key, kind in THE_PAPERS.items():
        part = getattr(design, key, None)
        if part is not None and not isinstance(part, kind):
            return f"{getattr(part, 'kind', '')} {key}"
    return None


def plain(mixing: Mixing) -> Mixing:
    """Return the fused kernel for a written-out one that computes the same."""
    return SAME_AS.get(mixing, mixing)


def with_plain_attention(design: Exportable) -> Exportable:
    """Return the same design with equal kernels under one name."""
    if isinstance(design, LanguageModelDesign):
        return replace(design, attention=plain(design.attention))
    own = design.encoder_attention and plain(design.encoder_attention)
    attention, cross = plain(design.attention), plain(design.cross_attention)
    own = None if own == attention else own
    return replace(design, attention=attention, encoder_attention=own, cross_attention=cross)


def stream_weights(design: Exportable) -> dict[str, float]:
    """Return for each stack the factor of its residual stream: DeepNorm's alpha. Without DeepNorm there is none."""
    if not isinstance(design.residual, DeepNorm):
        return {}
    if isinstance(design, LanguageModelDesign):
        return {"stack": design.residual.constants(design.size(decoder_layers=design.layers), True)[0]}
    size = design.size(design.encoder_layers, design.decoder_layers)
    return {name: design.residual.constants(size, name == "decoder")[0] for name in ("encoder", "decoder")}


def without_deep_norm(
    design: Exportable, tensors: NamedTensors
) -> tuple[Exportable, dict[str, Tensor], dict[str, float]]:
    """norm(a x + f(x)) with a stream y = a x that every norm makes a times as large: norm(y + f(y / a)).

    Matrices that read the stream take the 1 / a. Returns also the factors left for what enters each stack.
    """
    weights = stream_weights(design)
    folded = dict(tensors)
    for stack, weight in weights.items():
        layers = design.layers if isinstance(design, LanguageModelDesign) else getattr(design, f"{stack}_layers")
        for layer in range(layers):
            fold_layer(folded, design, f"{stack}.layers.{layer}", weight, last=layer == layers - 1)
    return (replace(design, residual=Post()) if weights else design), folded, weights


def fold_layer(folded: dict[str, Tensor], design: Exportable, layer: str, weight: float, last: bool) -> None:
    folded[f"{layer}.self_attention.qkv.weight"] = folded[f"{layer}.self_attention.qkv.weight"] / weight
    folded[f"{layer}.feed_forward.up.weight"] = folded[f"{layer}.feed_forward.up.weight"] / weight
    cross, queries = f"{layer}.cross_attention.qkv.weight", design.heads * design.size().head_width
    if cross in folded:  # keys and values read the source, which is not scaled
        folded[cross] = folded[cross].clone()
        folded[cross][:queries] /= weight
    for norm in ("around_self", "around_source", "around_feed"):
        for leaf in ("weight", "bias"):
            name = f"{layer}.{norm}.norm.{leaf}"
            if name in folded and not (last and norm == "around_feed"):
                folded[name] = folded[name] * weight
