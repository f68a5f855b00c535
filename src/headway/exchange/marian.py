"""Hugging Face's Marian layout: the paper's model, with sines in the first half of the vector as in ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from headway.errors import UsageError
from headway.exchange.layout import (
    BOTH,
    Facts,
    Pair,
    Table,
    activation,
    activation_name,
    alike,
    attention,
    inner_width,
    need,
    read,
    write,
)
from headway.model.design import EncoderDecoderDesign
from headway.model.functions import frequencies, sinusoid
from headway.model.kernels import Fused
from headway.model.norms import LayerNorm
from headway.model.positions import Sinusoidal
from headway.model.residuals import Post
from headway.storage.weights import NamedTensors
from headway.text.vocabulary import BOS, EOS, PAD


def marian_pairs(design: EncoderDecoderDesign) -> list[Pair]:
    return [
        *marian_stack(design, "encoder", design.encoder_layers, [("self_attention", "self_attn", "around_self")]),
        *marian_stack(
            design,
            "decoder",
            design.decoder_layers,
            [
                ("self_attention", "self_attn", "around_self"),
                ("cross_attention", "encoder_attn", "around_source"),
            ],
        ),
    ]


def marian_stack(
    design: EncoderDecoderDesign, stack: str, layers: int, looks: Sequence[tuple[str, str, str]]
) -> Iterator[Pair]:
    for layer in range(layers):
        ours, theirs = f"{stack}.layers.{layer}", f"model.{stack}.layers.{layer}"
        for look, attn, around in looks:
            yield from attention(design, f"{ours}.{look}", f"{theirs}.{attn}", "out_proj", BOTH)
            yield from alike(f"{ours}.{around}.norm", f"{theirs}.{attn}_layer_norm", BOTH)
        yield from alike(f"{ours}.feed_forward.up", f"{theirs}.fc1", BOTH)
        yield from alike(f"{ours}.feed_forward.down", f"{theirs}.fc2", BOTH)
        yield from alike(f"{ours}.around_feed.norm", f"{theirs}.final_layer_norm", BOTH)


def from_marian(state: NamedTensors, config: Table) -> tuple[EncoderDecoderDesign, dict[str, Tensor]]:
    config = Facts(config)
    for name in ("attention_heads", "ffn_dim"):
        need("Marian", f"decoder_{name}", config[f"decoder_{name}"], config[f"encoder_{name}"])
    shared, tied = config.get("share_encoder_decoder_embeddings", True), config.get("tie_word_embeddings", True)
    if shared:
        need("Marian", "tie_word_embeddings", tied, True)
    design = EncoderDecoderDesign(
        width=config["d_model"],
        heads=config["encoder_attention_heads"],
        encoder_layers=config["encoder_layers"],
        decoder_layers=config["decoder_layers"],
        feed_forward=activation(
            "Marian", config["activation_function"], config["encoder_ffn_dim"], config.get("activation_dropout", 0.0)
        ),
        dropout=float(config.get("dropout", 0.1)),
        attention_dropout=float(config.get("attention_dropout", 0.0)),
        scale_embedding=config.get("scale_embedding", False),
        output_bias=True,
        tie_embeddings="all" if shared else "output" if tied else "none",
        longest=config.get("max_position_embeddings", 1024),
    )
    return design, read(marian_pairs(design), state) | marian_vocabularies(state)


def marian_vocabularies(state: NamedTensors) -> dict[str, Tensor]:
    """Files keep a shared table once, under any of its names."""
    names = ("model.shared.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
    table = next((state[name] for name in names if name in state), None)
    if table is None:
        raise UsageError(f"Marian layout: none of {', '.join(names)} is there")
    written = state.get("model.decoder.embed_tokens.weight", table)
    head = state.get("lm_head.weight", written)
    return {
        "source_embedding.weight": state.get("model.encoder.embed_tokens.weight", table),
        "target_embedding.weight": written,
        "head.weight": head,
        "head.bias": state["final_logits_bias"][0] if "final_logits_bias" in state else head.new_zeros(len(head)),
    }


def to_marian(design: EncoderDecoderDesign, tensors: NamedTensors) -> tuple[dict[str, Tensor], dict[str, Any]]:
    check_marian(design)
    read_table, written, head = (tensors[f"{name}.weight"] for name in ("source_embedding", "target_embedding", "head"))
    waves = sinusoid(torch.arange(design.longest), frequencies(design.width)).to(head.dtype)
    state = write(marian_pairs(design), tensors) | {
        "model.encoder.embed_tokens.weight": read_table,
        "model.decoder.embed_tokens.weight": written,
        "model.encoder.embed_positions.weight": waves,
        "model.decoder.embed_positions.weight": waves.clone(),
        "lm_head.weight": head,
        "final_logits_bias": tensors.get("head.bias", head.new_zeros(len(head)))[None],
    }
    state |= {"model.shared.weight": written} if design.tie_embeddings == "all" else {}
    return state, marian_config(
        design, len(read_table), len(written), inner_width(state, "model.encoder.layers.0.fc2.weight")
    )


def check_marian(design: EncoderDecoderDesign) -> None:
    for name, allowed in {
        "residual": Post(),
        "norm": LayerNorm(),
        "positions": Sinusoidal(),
        "attention": Fused(),
        "cross_attention": Fused(),
        "encoder_attention": None,
        "bias": True,
    }.items():
        need("Marian", name, getattr(design, name), allowed)
    need("Marian", "attended_layers", design.read_layers(), (design.encoder_layers - 1,) * design.decoder_layers)
    need("Marian", "key_heads", design.size().key_heads, design.heads)
    need("Marian", "head_width", design.size().head_width * design.heads, design.width)


def marian_config(design: EncoderDecoderDesign, source: int, target: int, inner: int) -> dict[str, Any]:
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("attention_heads", design.heads), ("ffn_dim", inner))
    }
    return sides | {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": source,
        "decoder_vocab_size": target,
        "d_model": design.width,
        "encoder_layers": design.encoder_layers,
        "decoder_layers": design.decoder_layers,
        "activation_function": activation_name("Marian", design.feed_forward),
        "dropout": design.dropout,
        "attention_dropout": design.attention_dropout,
        "activation_dropout": design.feed_forward.dropout,
        "scale_embedding": design.scale_embedding,
        "share_encoder_decoder_embeddings": design.tie_embeddings == "all",
        "tie_word_embeddings": design.tie_embeddings != "none",
        "max_position_embeddings": design.longest,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "static_position_embeddings": True,
        "normalize_before": False,
    }
