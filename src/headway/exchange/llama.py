"""Hugging Face's LLaMA layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from headway.exchange.layout import (
    BOTH,
    WEIGHT,
    Facts,
    Pair,
    Table,
    alike,
    attention,
    inner_width,
    need,
    read,
    write,
)
from headway.model.design import LanguageModelDesign
from headway.model.feed_forward import Swiglu
from headway.model.kernels import Fused
from headway.model.norms import RMSNorm
from headway.model.positions import Rotary
from headway.model.residuals import Pre
from headway.storage.weights import NamedTensors
from headway.text.vocabulary import BOS, EOS, PAD


def llama_pairs(design: LanguageModelDesign, inner: int) -> list[Pair]:
    leaves = BOTH if design.bias else WEIGHT
    layers = [pair for layer in range(design.layers) for pair in llama_layer(design, layer, inner, leaves)]
    vocabulary = [Pair("embedding.weight", ("model.embed_tokens.weight",))]
    return [*vocabulary, *layers, *alike("stack.last_norm", "model.norm", WEIGHT)]


def llama_layer(design: LanguageModelDesign, layer: int, inner: int, leaves: Sequence[str]) -> list[Pair]:
    ours, theirs = f"stack.layers.{layer}", f"model.layers.{layer}"
    gate = ("gate_proj", "up_proj")
    return [
        *attention(design, f"{ours}.self_attention", f"{theirs}.self_attn", "o_proj", leaves),
        *(
            Pair(f"{ours}.feed_forward.up.{leaf}", tuple(f"{theirs}.mlp.{x}.{leaf}" for x in gate), (inner, inner))
            for leaf in leaves
        ),
        *alike(f"{ours}.feed_forward.down", f"{theirs}.mlp.down_proj", leaves),
        *alike(f"{ours}.around_self.norm", f"{theirs}.input_layernorm", WEIGHT),
        *alike(f"{ours}.around_feed.norm", f"{theirs}.post_attention_layernorm", WEIGHT),
    ]


def from_llama(state: NamedTensors, config: Table) -> tuple[LanguageModelDesign, dict[str, Tensor]]:
    config = Facts(config)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    need("LLaMA", "rope_type", rope.get("rope_type", rope.get("type", "default")), "default")
    need("LLaMA", "hidden_act", config.get("hidden_act", "silu"), "silu")
    bias = config.get("attention_bias", False)
    need("LLaMA", "mlp_bias", config.get("mlp_bias", False), bias)
    inner, tied = config["intermediate_size"], config.get("tie_word_embeddings", False)
    design = LanguageModelDesign(
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        key_heads=config.get("num_key_value_heads"),
        head_width=config.get("head_dim"),
        feed_forward=Swiglu(width=inner),
        positions=Rotary(base=float(rope.get("rope_theta") or config.get("rope_theta", 10_000.0))),
        norm=RMSNorm(epsilon=float(config.get("rms_norm_eps", 1e-6))),
        residual=Pre(),
        dropout=0.0,
        attention_dropout=float(config.get("attention_dropout") or 0.0),
        bias=bias,
        scale_embedding=False,
        tie_embeddings=tied,
        longest=config.get("max_position_embeddings", 2048),
    )
    tensors = read(llama_pairs(design, inner), state)
    head = (
        tensors["embedding.weight"] if tied else read([Pair("head.weight", ("lm_head.weight",))], state)["head.weight"]
    )
    return design, tensors | {"head.weight": head}


def to_llama(design: LanguageModelDesign, tensors: NamedTensors) -> tuple[dict[str, Tensor], dict[str, Any]]:
    positions, norm = check_llama(design)
    inner, size = inner_width(tensors, "stack.layers.0.feed_forward.down.weight"), design.size()
    state = write(llama_pairs(design, inner), tensors) | {"lm_head.weight": tensors["head.weight"]}
    return state, {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": len(tensors["embedding.weight"]),
        "hidden_size": design.width,
        "intermediate_size": inner,
        "num_hidden_layers": design.layers,
        "num_attention_heads": design.heads,
        "num_key_value_heads": size.key_heads,
        "head_dim": size.head_width,
        "hidden_act": "silu",
        "rms_norm_eps": norm.epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": positions.base},
        "rope_theta": positions.base,
        "attention_bias": design.bias,
        "attention_dropout": design.attention_dropout,
        "mlp_bias": design.bias,
        "tie_word_embeddings": design.tie_embeddings,
        "max_position_embeddings": design.longest,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }


def check_llama(design: LanguageModelDesign) -> tuple[Rotary, RMSNorm]:
    for name, allowed in {"residual": Pre(), "attention": Fused(), "scale_embedding": False, "memory": 0}.items():
        need("LLaMA", name, getattr(design, name), allowed)
    need("LLaMA", "output_bias", design.output_bias, False)
    need("LLaMA", "feed_forward", design.feed_forward.kind, "swiglu")
    need("LLaMA", "positions", design.positions.kind, "rotary")
    need("LLaMA", "norm", design.norm.kind, "rms")
    assert isinstance(design.positions, Rotary) and isinstance(design.norm, RMSNorm)
    return design.positions, design.norm
