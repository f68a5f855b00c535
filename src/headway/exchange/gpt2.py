"""Hugging Face's GPT-2 layout."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from headway.exchange.layout import (
    BOTH,
    Facts,
    Pair,
    Table,
    activation,
    activation_name,
    alike,
    inner_width,
    need,
    read,
    write,
)
from headway.model.design import LanguageModelDesign
from headway.model.kernels import Fused
from headway.model.norms import LayerNorm
from headway.model.positions import Learned
from headway.model.residuals import Pre
from headway.storage.weights import NamedTensors
from headway.text.vocabulary import BOS, EOS, PAD

PREFIX = "transformer."  # the first published files leave it out
TURNED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # matrices kept columns first


def gpt2_pairs(design: LanguageModelDesign) -> list[Pair]:
    bottom = [Pair("embedding.weight", ("wte.weight",)), Pair("stack.positions.table.weight", ("wpe.weight",))]
    names = {
        "self_attention.qkv": "attn.c_attn",
        "self_attention.out": "attn.c_proj",
        "feed_forward.up": "mlp.c_fc",
        "feed_forward.down": "mlp.c_proj",
        "around_self.norm": "ln_1",
        "around_feed.norm": "ln_2",
    }
    layers = [
        pair
        for layer in range(design.layers)
        for ours, theirs in names.items()
        for pair in alike(f"stack.layers.{layer}.{ours}", f"h.{layer}.{theirs}", BOTH)
    ]
    return [*bottom, *layers, *alike("stack.last_norm", "ln_f", BOTH)]


def from_gpt2(state: NamedTensors, config: Table) -> tuple[LanguageModelDesign, dict[str, Tensor]]:
    config = Facts(config)
    need("GPT-2", "scale_attn_by_inverse_layer_idx", config.get("scale_attn_by_inverse_layer_idx", False), False)
    need("GPT-2", "tie_word_embeddings", config.get("tie_word_embeddings", True), True)
    width, inner = config["n_embd"], config.get("n_inner") or 4 * config["n_embd"]
    design = LanguageModelDesign(
        width=width,
        layers=config["n_layer"],
        heads=config["n_head"],
        feed_forward=activation("GPT-2", config.get("activation_function", "gelu_new"), inner, 0.0),
        positions=Learned(),
        attention=Fused(scaled=config.get("scale_attn_weights", True)),
        norm=LayerNorm(epsilon=float(config.get("layer_norm_epsilon", 1e-5))),
        residual=Pre(),
        dropout=float(config.get("resid_pdrop", 0.1)),
        attention_dropout=float(config.get("attn_pdrop", 0.1)),
        embedding_dropout=float(config.get("embd_pdrop", 0.1)),
        scale_embedding=False,
        longest=config["n_positions"],
    )
    tensors = read(gpt2_pairs(design), {name.removeprefix(PREFIX): turn(name, x) for name, x in state.items()})
    return design, tensors | {"head.weight": tensors["embedding.weight"]}


def to_gpt2(design: LanguageModelDesign, tensors: NamedTensors) -> tuple[dict[str, Tensor], dict[str, Any]]:
    norm = check_gpt2(design)
    state = {PREFIX + name: turn(name, x) for name, x in write(gpt2_pairs(design), tensors).items()}
    return state | {"lm_head.weight": tensors["head.weight"]}, {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": len(tensors["embedding.weight"]),
        "n_positions": design.longest,
        "n_embd": design.width,
        "n_layer": design.layers,
        "n_head": design.heads,
        "n_inner": inner_width(tensors, "stack.layers.0.feed_forward.down.weight"),
        "activation_function": activation_name("GPT-2", design.feed_forward),
        "scale_attn_weights": design.attention == Fused(),
        "resid_pdrop": design.dropout,
        "embd_pdrop": design.on_embeddings,
        "attn_pdrop": design.attention_dropout,
        "layer_norm_epsilon": norm.epsilon,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }


def turn(name: str, tensor: Tensor) -> Tensor:
    return tensor.T.contiguous() if name.endswith(TURNED) else tensor


def check_gpt2(design: LanguageModelDesign) -> LayerNorm:
    for name, allowed in {
        "residual": Pre(),
        "positions": Learned(),
        "bias": True,
        "output_bias": False,
        "scale_embedding": False,
        "tie_embeddings": True,
        "memory": 0,
    }.items():
        need("GPT-2", name, getattr(design, name), allowed)
    need("GPT-2", "attention", design.attention.kind, "fused")
    need("GPT-2", "norm", design.norm.kind, "layer")
    need("GPT-2", "feed_forward.dropout", design.feed_forward.dropout, 0.0)
    need("GPT-2", "key_heads", design.size().key_heads, design.heads)
    need("GPT-2", "head_width", design.size().head_width * design.heads, design.width)
    assert isinstance(design.norm, LayerNorm)
    return design.norm
