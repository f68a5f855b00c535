"""Our tensors in the places CTranslate2 names."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headway.model.design import Design, EncoderDecoderDesign
from headway.model.feed_forward import Gelu
from headway.model.kernels import Fused, Mixing
from headway.model.plain_design import Exportable, without_deep_norm
from headway.model.positions import Alibi, Bucketed, Rotary
from headway.storage.weights import NamedTensors
from headway.text.vocabulary import BOS, PAD, UNK

NEVER = -1e4  # the score of pieces that must not come out; half precision can still hold it
LONGEST = 2048  # positions and distances written into tables, where the design itself knows no end


def specification(design: Exportable, tensors: NamedTensors) -> Any:
    from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec

    design, tensors, weights = without_deep_norm(design, tensors)
    if isinstance(design, EncoderDecoderDesign):
        encoder = encoder_spec(design, tensors, weights.get("encoder", 1.0))
        return TransformerSpec(encoder, decoder_spec(design, tensors, "decoder", weights.get("decoder", 1.0)))
    return TransformerDecoderModelSpec(decoder_spec(design, tensors, "stack", weights.get("stack", 1.0)))


def options(design: Design) -> dict[str, Any]:
    """What encoder and decoder share."""
    from ctranslate2.specs.common_spec import Activation

    names = {"relu": Activation.RELU, "gelu": Activation.GELU, "swish": Activation.SWISH, "swiglu": Activation.SWISH}
    tanh = isinstance(design.feed_forward, Gelu) and design.feed_forward.tanh
    return {
        "num_heads": design.heads,
        "pre_norm": design.residual.kind in ("pre", "sandwich"),
        "pre_post_layer_norm": design.residual.kind == "sandwich",
        "activation": Activation.GELUTanh if tanh else names[design.feed_forward.kind],
        "ffn_glu": design.feed_forward.kind == "swiglu",
        "rms_norm": design.norm.kind == "rms",
        "relative_attention_bias": isinstance(design.positions, Alibi | Bucketed),
        **head_options(design),
        **rotary_options(design),
    }


def head_options(design: Design) -> dict[str, int]:
    size = design.size()
    grouped = {} if size.key_heads == size.heads else {"num_heads_kv": size.key_heads}
    return grouped if size.heads * size.head_width == size.width else grouped | {"head_dim": size.head_width}


def rotary_options(design: Design) -> dict[str, Any]:
    if not isinstance(design.positions, Rotary):
        return {}
    return {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": design.positions.base}


# ---------------------------------------------------------------- stacks


def encoder_spec(design: EncoderDecoderDesign, tensors: NamedTensors, weight: float) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerEncoderSpec

    spec: Any = TransformerEncoderSpec(design.encoder_layers, **options(design))
    spec.embeddings[0].weight = tensors["source_embedding.weight"] * weight
    fill_stack(spec, design, tensors, "encoder", weight, design.encoder_attention or design.attention)
    return spec


def decoder_spec(design: Exportable, tensors: NamedTensors, stack: str, weight: float) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec

    reads = isinstance(design, EncoderDecoderDesign)
    spec: Any = TransformerDecoderSpec(
        design.decoder_layers if isinstance(design, EncoderDecoderDesign) else design.layers,
        with_encoder_attention=reads,
        external_pre_post_encoder_layers=reads and design.residual.kind == "sandwich",
        alignment_heads=design.heads,  # the mean of all heads of the last layer
        **options(design),
    )
    spec.embeddings.weight = tensors["target_embedding.weight" if reads else "embedding.weight"] * weight
    fill_stack(spec, design, tensors, stack, weight, design.attention)
    if isinstance(design, EncoderDecoderDesign):
        for index, layer in enumerate(spec.layer):
            fill_cross(layer, design, tensors, f"{stack}.layers.{index}")
    head = tensors["head.weight"]
    spec.projection.weight = head
    spec.projection.bias = tensors.get("head.bias", head.new_zeros(len(head))).clone()
    spec.projection.bias[[PAD, UNK, BOS]] = NEVER
    return spec


def fill_stack(spec: Any, design: Exportable, tensors: NamedTensors, stack: str, weight: float, mixing: Mixing) -> None:
    spec.scale_embeddings = design.scale_embedding
    if hasattr(spec, "position_encodings") and not isinstance(design.positions, Rotary):
        spec.position_encodings.encodings = position_table(design, tensors, stack) * weight
    if design.residual.last_norm:
        fill_norm(spec.layer_norm, tensors, f"{stack}.last_norm")
    bias = distance_table(design, tensors, stack) if isinstance(design.positions, Alibi | Bucketed) else None
    for index, layer in enumerate(spec.layer):
        fill_layer(layer, design, tensors, f"{stack}.layers.{index}", mixing)
        if bias is not None:
            layer.self_attention.relative_attention_bias = bias
            layer.self_attention.relative_attention_max_distance = torch.tensor(2 * LONGEST, dtype=torch.int32)


# ---------------------------------------------------------------- layers


def fill_layer(spec: Any, design: Design, tensors: NamedTensors, layer: str, mixing: Mixing) -> None:
    own, feed = spec.self_attention, spec.ffn
    fill_linear(own.linear[0], tensors, f"{layer}.self_attention.qkv")
    fill_linear(own.linear[1], tensors, f"{layer}.self_attention.out")
    fill_scale(own, mixing)
    if design.residual.kind == "sandwich":
        fill_norm(spec.input_layer_norm, tensors, f"{layer}.around_self.before")
        fill_norm(spec.post_attention_layer_norm, tensors, f"{layer}.around_self.after")
        fill_norm(spec.pre_feedforward_layer_norm, tensors, f"{layer}.around_feed.before")
        fill_norm(spec.post_feedforward_layer_norm, tensors, f"{layer}.around_feed.after")
    else:
        fill_norm(own.layer_norm, tensors, f"{layer}.around_self.norm")
        fill_norm(feed.layer_norm, tensors, f"{layer}.around_feed.norm")
    if design.feed_forward.kind == "swiglu":
        fill_linear(feed.linear_0, tensors, f"{layer}.feed_forward.up", (0, 2))
        fill_linear(feed.linear_0_noact, tensors, f"{layer}.feed_forward.up", (1, 2))
    else:
        fill_linear(feed.linear_0, tensors, f"{layer}.feed_forward.up")
    fill_linear(feed.linear_1, tensors, f"{layer}.feed_forward.down")


def fill_cross(spec: Any, design: EncoderDecoderDesign, tensors: NamedTensors, layer: str) -> None:
    cross, size = spec.attention, design.size()
    rows = [size.heads * size.head_width, 2 * size.key_heads * size.head_width]
    parts = {leaf: tensors.get(f"{layer}.cross_attention.qkv.{leaf}") for leaf in ("weight", "bias")}
    for leaf, tensor in parts.items():
        if tensor is not None:
            for linear, part in zip(cross.linear, tensor.split(rows), strict=False):
                setattr(linear, leaf, part)
    fill_linear(cross.linear[2], tensors, f"{layer}.cross_attention.out")
    fill_scale(cross, design.cross_attention)
    if design.residual.kind == "sandwich":
        fill_norm(spec.external_pre_encoder_attention_layer_norm, tensors, f"{layer}.around_source.before")
        fill_norm(spec.external_post_encoder_attention_layer_norm, tensors, f"{layer}.around_source.after")
    else:
        fill_norm(cross.layer_norm, tensors, f"{layer}.around_source.norm")


def fill_scale(spec: Any, mixing: Mixing) -> None:
    if isinstance(mixing, Fused) and not mixing.scaled:
        spec.queries_scale = 1.0


def fill_linear(spec: Any, tensors: NamedTensors, name: str, part: tuple[int, int] = (0, 1)) -> None:
    """All of a matrix and its bias, or one part of so many."""
    index, count = part
    spec.weight = tensors[f"{name}.weight"].chunk(count)[index]
    if f"{name}.bias" in tensors:
        spec.bias = tensors[f"{name}.bias"].chunk(count)[index]


def fill_norm(spec: Any, tensors: NamedTensors, name: str) -> None:
    spec.gamma = tensors[f"{name}.weight"]
    if f"{name}.bias" in tensors:
        spec.beta = tensors[f"{name}.bias"]


# ---------------------------------------------------------------- positions


def position_table(design: Design, tensors: NamedTensors, stack: str) -> Float[Tensor, "n d"]:
    """What the positions add to each embedding."""
    positions = built(design, tensors, stack)
    rows = positions.longest or max(LONGEST, design.longest)
    return positions.embed(torch.zeros(1, rows, design.width), torch.arange(rows)[None])[0].detach()


def distance_table(design: Design, tensors: NamedTensors, stack: str) -> Float[Tensor, "n h"]:
    """The bias of every distance, in T5's buckets made so many that the first ones hold one distance each.

    The encoder has as many again for keys ahead. Buckets beyond the last exact one hold ever longer distances.
    """
    far = LONGEST * 2 ** (torch.arange(LONGEST) / LONGEST)
    back = torch.cat([torch.arange(LONGEST), far.long()])
    distances = back if stack != "encoder" else torch.cat([back, -back])
    q = torch.zeros(1, design.heads, 1, 1)
    bias = built(design, tensors, stack).bias(
        q, q.expand(-1, -1, len(distances), -1), torch.zeros(1, 1).long(), -distances[None]
    )
    assert bias is not None
    return bias[0, :, 0].T.detach().contiguous()


def built(design: Design, tensors: NamedTensors, stack: str) -> Any:
    """The stack's positions with its weights."""
    positions = design.positions.build(design.size())
    prefix = f"{stack}.positions."
    positions.load_state_dict({name[len(prefix) :]: x for name, x in tensors.items() if name.startswith(prefix)})
    return positions
