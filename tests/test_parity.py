"""The same numbers as other implementations with the same weights, run side by side."""

from __future__ import annotations

import math
import warnings
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway import recipes
from headway.errors import UsageError
from headway.exchange.huggingface import (
    from_gpt2,
    from_llama,
    from_marian,
    pick_pieces,
    to_gpt2,
    to_llama,
    to_marian,
)
from headway.model.attention import Attention
from headway.model.blocks import BlockState, Place, Source
from headway.model.design import Design, EncoderDecoderDesign, LanguageModelDesign
from headway.model.feed_forward import Gelu, Relu, Swiglu, Swish
from headway.model.kernels import Fused
from headway.model.mask import Mask
from headway.model.norms import RMSNorm
from headway.model.positions import Alibi, Learned, Rotary, Tener, TransformerXL
from headway.model.positions.bucketed import bucket
from headway.model.residuals import Post, Pre
from headway.model.size import Size
from headway.model.states import State

WORDS = 23


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


def wake(model: nn.Module) -> Any:
    """Weights large enough that every difference shows."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3).add_(1.0 if parameter.dim() == 1 else 0.0)
    return model.eval()


def ids(rows: int, length: int) -> Tensor:
    return torch.randint(4, WORDS, (rows, length))


# ---------------------------------------------------------------- torch.nn


@pytest.mark.parametrize("pre", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
class TestTorch:
    """torch.nn.TransformerEncoderLayer and TransformerDecoderLayer, values and gradients."""

    def model(self, pre: bool, activation: str) -> Any:
        design = EncoderDecoderDesign(
            width=16,
            heads=4,
            feed_forward=Relu(width=40) if activation == "relu" else Gelu(width=40),
            encoder_layers=1,
            decoder_layers=1,
            residual=Pre() if pre else Post(),
            dropout=0.0,
        )
        return wake(design.build(WORDS))

    def theirs(self, kind: type[nn.Module], pre: bool, activation: str) -> Any:
        return kind(16, 4, 40, 0.0, activation, batch_first=True, norm_first=pre)

    def attention(self, ours: Any, theirs: nn.MultiheadAttention) -> None:
        theirs.in_proj_weight, theirs.in_proj_bias = ours.qkv.weight, ours.qkv.bias
        theirs.out_proj.weight, theirs.out_proj.bias = ours.out.weight, ours.out.bias

    def test_encoder_layer(self, pre: bool, activation: str) -> None:
        ours, theirs = (
            self.model(pre, activation).encoder.layers[0],
            self.theirs(nn.TransformerEncoderLayer, pre, activation),
        )
        self.attention(ours.self_attention, theirs.self_attn)
        theirs.linear1, theirs.linear2 = ours.feed_forward.up, ours.feed_forward.down
        theirs.norm1.load_state_dict(ours.around_self.norm.state_dict())
        theirs.norm2.load_state_dict(ours.around_feed.norm.state_dict())
        x = torch.randn(3, 6, 16, requires_grad=True)
        real = torch.arange(6) < torch.tensor([[6], [5], [2]])
        mine = ours(x, Place(torch.arange(6)[None], Mask(keys=real), real), BlockState())
        other = theirs(x, src_key_padding_mask=~real)
        close(mine[real], other[real])
        close(*(torch.autograd.grad(y[real].square().sum(), x)[0] / 100 for y in (mine, other)))

    def test_decoder_layer(self, pre: bool, activation: str) -> None:
        ours, theirs = (
            self.model(pre, activation).decoder.layers[0],
            self.theirs(nn.TransformerDecoderLayer, pre, activation),
        )
        self.attention(ours.self_attention, theirs.self_attn)
        self.attention(ours.cross_attention, theirs.multihead_attn)
        theirs.linear1, theirs.linear2 = ours.feed_forward.up, ours.feed_forward.down
        for norm, around in (("norm1", "around_self"), ("norm2", "around_source"), ("norm3", "around_feed")):
            getattr(theirs, norm).load_state_dict(getattr(ours, around).norm.state_dict())
        x, memory = torch.randn(3, 6, 16, requires_grad=True), torch.randn(3, 5, 16)
        real = torch.arange(5) < torch.tensor([[5], [4], [1]])
        source = Source(memory, torch.arange(5)[None], Mask(keys=real))
        mine = ours(x, source, Place(torch.arange(6)[None], Mask(causal=True)), BlockState())
        future = torch.ones(6, 6, dtype=torch.bool).triu(1)
        other = theirs(x, memory, tgt_mask=future, memory_key_padding_mask=~real)
        close(mine, other)
        close(*(torch.autograd.grad(y.square().sum(), x)[0] / 100 for y in (mine, other)))


# ---------------------------------------------------------------- Hugging Face


@pytest.fixture(scope="module")
def transformers() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("transformers")
        module.logging.set_verbosity_error()
        for name in ("MarianMTModel", "LlamaForCausalLM", "GPT2LMHeadModel", "T5Model"):
            getattr(module, name)  # imported now, where its warnings do no harm
    return module


def loaded(design: Any, tensors: dict[str, Tensor]) -> Any:
    """A model of ours with these tensors, which must be all it has."""
    if isinstance(design, EncoderDecoderDesign):
        model = design.build(len(tensors["source_embedding.weight"]), len(tensors["target_embedding.weight"]))
    else:
        model = design.build(len(tensors["embedding.weight"]))
    model.load_state_dict(tensors)
    return model.eval()


MARIAN = {
    "vocab_size": WORDS,
    "d_model": 16,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "scale_embedding": True,
    "pad_token_id": 0,
    "eos_token_id": 3,
    "decoder_start_token_id": 2,
    "max_position_embeddings": 20,
}
APART = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": WORDS + 4}


@pytest.mark.parametrize(
    "more",
    [
        {"activation_function": "relu"},
        {"activation_function": "swish"},
        {"activation_function": "gelu", "scale_embedding": False},
        {"activation_function": "relu"} | APART,
        {"activation_function": "relu", "tie_word_embeddings": False} | APART,
    ],
    ids=["relu", "swish", "gelu", "two vocabularies", "untied"],
)
@torch.no_grad()
def test_marian(transformers: ModuleType, more: dict[str, Any]) -> None:
    config = transformers.MarianConfig(**MARIAN | more)
    theirs = wake(transformers.MarianMTModel(config))
    theirs.final_logits_bias.normal_()
    for side in (theirs.model.encoder, theirs.model.decoder):
        side.embed_positions.weight.copy_(side.embed_positions.create_weight())
    design, tensors = from_marian(theirs.state_dict(), config.to_dict())
    ours = loaded(design, tensors)
    source, target = ids(3, 7), ids(3, 6)
    source[1:, 5:], source[2, 3:] = 0, 0
    expected = theirs(source, attention_mask=(source != 0).long(), decoder_input_ids=target).logits
    close(ours(source, target), expected, 1e-5 * float(expected.abs().max()))

    back, said = to_marian(design, ours.state_dict())
    again = transformers.MarianMTModel(transformers.MarianConfig(**said)).eval()
    again.load_state_dict(back)
    close(again(source, attention_mask=(source != 0).long(), decoder_input_ids=target).logits, expected, 1e-4)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"num_key_value_heads": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
        {"num_key_value_heads": 1, "tie_word_embeddings": True, "head_dim": 6, "rms_norm_eps": 1e-3},
        {"attention_bias": True, "mlp_bias": True},
    ],
    ids=["plain", "grouped", "one key head", "biases"],
)
@torch.no_grad()
def test_llama(transformers: ModuleType, more: dict[str, Any]) -> None:
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=WORDS, **sizes, **more)
    theirs = wake(transformers.LlamaForCausalLM(config))
    design, tensors = from_llama(theirs.state_dict(), config.to_dict())
    ours, text = loaded(design, tensors), ids(3, 9)
    expected = theirs(text).logits
    close(ours(text), expected, 1e-5 * float(expected.abs().max()))

    back, said = to_llama(design, ours.state_dict())
    again = transformers.LlamaForCausalLM(transformers.LlamaConfig(**said)).eval()
    again.load_state_dict(back)
    close(again(text).logits, expected)


def test_llama_written_before_rope_parameters() -> None:
    tensors = LanguageModelDesign(
        width=8, heads=2, layers=1, feed_forward=Swiglu(), positions=Rotary(base=77.0), norm=RMSNorm(), residual=Pre(),
        bias=False, scale_embedding=False, tie_embeddings=False, dropout=0.0,
    )  # fmt: skip
    state, config = to_llama(tensors, tensors.build(WORDS).state_dict())
    old = {name: value for name, value in config.items() if name != "rope_parameters"}
    assert from_llama(state, old)[0].positions == Rotary(base=77.0)
    with pytest.raises(UsageError, match="rope_type is 'llama3'"):
        from_llama(state, old | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}})


@torch.no_grad()
def test_gpt2(transformers: ModuleType) -> None:
    sizes = {"n_positions": 12, "n_embd": 16, "n_layer": 2, "n_head": 4, "bos_token_id": 2, "eos_token_id": 3}
    config = transformers.GPT2Config(vocab_size=WORDS, **sizes)
    theirs = wake(transformers.GPT2LMHeadModel(config))
    design, tensors = from_gpt2(theirs.state_dict(), config.to_dict())
    ours, text = loaded(design, tensors), ids(3, 9)
    expected = theirs(text).logits
    close(ours(text), expected, 1e-5 * float(expected.abs().max()))

    back, said = to_gpt2(design, ours.state_dict())
    again = transformers.GPT2LMHeadModel(transformers.GPT2Config(**said)).eval()
    again.load_state_dict(back)
    close(again(text).logits, expected)
    bare = {name.removeprefix("transformer."): tensor for name, tensor in back.items()}
    assert set(from_gpt2(bare, said)[1]) == set(tensors)


def test_a_vocabulary_in_another_order_is_the_same_model() -> None:
    design = recipes.gpt2(width=8, layers=1, heads=2)
    model = design.build(WORDS).eval()
    order = torch.randperm(WORDS)
    moved = loaded(design, pick_pieces(model.state_dict(), order.tolist()))
    text = ids(2, 5)
    back = torch.argsort(order)
    close(moved(back[text]), model(text)[..., order])


@pytest.mark.parametrize(
    ("write", "design", "reason"),
    [
        (to_marian, EncoderDecoderDesign(residual=Pre()), "Marian layout: residual is Pre"),
        (to_marian, EncoderDecoderDesign(key_heads=4), "Marian layout: key_heads is 4; only 8"),
        (to_marian, EncoderDecoderDesign(attended_layers="each"), "Marian layout: attended_layers is"),
        (to_llama, LanguageModelDesign(residual=Pre(), scale_embedding=False), "LLaMA layout: feed_forward is 'relu'"),
        (to_gpt2, LanguageModelDesign(residual=Pre(), positions=Rotary()), "GPT-2 layout: positions is Rotary"),
    ],
)
def test_what_a_layout_cannot_say_is_refused(write: Any, design: Design, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        write(design, {})


@pytest.mark.parametrize("read", [from_marian, from_llama, from_gpt2])
def test_a_configuration_that_lacks_something_is_refused(read: Any) -> None:
    with pytest.raises(UsageError, match="the configuration has no .*; its model_type is 'unset'"):
        read({}, {})


def test_tensors_and_activations_that_do_not_fit_are_refused() -> None:
    llama = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    with pytest.raises(UsageError, match="11 tensors are missing, the first is model.embed_tokens.weight"):
        from_llama({}, llama)
    with pytest.raises(UsageError, match="the activation is 'tanh'; headway knows relu"):
        from_marian({}, MARIAN | {"activation_function": "tanh"})


def test_t5_buckets(transformers: ModuleType) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    for buckets, furthest in ((32, 128), (16, 40), (8, 20)):
        distance = torch.arange(-300, 301)
        theirs = T5Attention._relative_position_bucket(distance, True, buckets, furthest)
        assert torch.equal(bucket(distance, buckets, furthest), theirs)


def test_alibi_slopes(transformers: ModuleType) -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    size = Size(width=32, heads=8, key_heads=8, head_width=4)
    q, pos = torch.randn(1, 8, 5, 4), torch.arange(5)[None]
    bias = Alibi().build(size).bias(q, q, pos, pos)
    theirs = build_alibi_tensor(torch.ones(1, 5, dtype=torch.long), 8, torch.float32)[:, 0]  # slope times key
    assert bias is not None
    close(bias[0, :, 4], theirs - theirs[:, 4:])


# ---------------------------------------------------------------- papers, transcribed


def wave(distance: int, width: int) -> Tensor:
    """Sines, then cosines, of the distance over 10000^(2i/d)."""
    angles = [distance / 10_000 ** (2 * i / width) for i in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def split_heads(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1))


def mix(scores: Tensor, v: Tensor) -> Tensor:
    """scores [i j h], values [j h e] -> [i h·e]"""
    return torch.einsum("ijh,jhe->ihe", scores.softmax(dim=1), v).flatten(1)


@torch.no_grad()
def test_transformer_xl_as_in_its_paper() -> None:
    """Equation (d) of section 3.3, term by term, with a memory of five."""
    size, memory, length = Size(width=8, heads=2, key_heads=2, head_width=4), 5, 4
    layer = Attention(size, TransformerXL().build(size), Fused().build(size, 0.0), bias=False).double()
    p = layer.positions
    x = torch.randn(memory + length, 8, dtype=torch.float64)
    w_q, w_k, w_v = layer.qkv.weight.split(8)
    q, k, v = (split_heads(x @ w.T, 2) for w in (w_q, w_k, w_v))
    scores = torch.full((length, memory + length, 2), -torch.inf, dtype=torch.float64)
    for i in range(length):
        for j in range(memory + i + 1):
            r = split_heads(wave(memory + i - j, 8) @ p.to_r.weight.T, 2)
            for h in range(2):
                a, b, c, d = q[memory + i, h] @ k[j, h], q[memory + i, h] @ r[h], p.u[h] @ k[j, h], p.v[h] @ r[h]
                scores[i, j, h] = (a + b + c + d) / math.sqrt(4)
    expected = mix(scores, v) @ layer.out.weight.T
    pos = torch.arange(-memory, length)[None]
    mine = layer(x[None, memory:], x[None], Mask(causal=True), pos[:, memory:], pos, State())
    close(mine[0], expected, 1e-12)


@torch.no_grad()
def test_tener_as_in_its_paper() -> None:
    """Equations 17 to 19: not scaled, R not projected, direction kept. (The paper's keys are ours with W_K = 1.)"""
    size, length = Size(width=8, heads=2, key_heads=2, head_width=4), 6
    layer = Attention(size, Tener().build(size), Fused(scaled=False).build(size, 0.0), bias=False).double()
    p = layer.positions
    x = torch.randn(length, 8, dtype=torch.float64)
    q, k, v = (split_heads(x @ w.T, 2) for w in layer.qkv.weight.split(8))
    scores = torch.empty(length, length, 2, dtype=torch.float64)
    for t in range(length):
        for j in range(length):
            r = wave(t - j, 4)
            for h in range(2):
                scores[t, j, h] = q[t, h] @ k[j, h] + q[t, h] @ r + p.u[h] @ k[j, h] + p.v[h] @ r
    expected = mix(scores, v) @ layer.out.weight.T
    pos = torch.arange(length)[None]
    close(layer(x[None], x[None], Mask(), pos, pos, State())[0], expected, 1e-12)


@torch.no_grad()
def test_rotary_as_in_its_paper() -> None:
    """Equation 15: each pair of features times a 2 x 2 rotation matrix."""
    heads, pos = torch.randn(1, 1, 5, 6, dtype=torch.float64), torch.tensor([[0, 1, 2, 9, 4096]])
    size = Size(width=6, heads=1, key_heads=1, head_width=6)
    turned = Rotary().build(size).rotate(heads, pos)
    for t in range(5):
        for i in range(3):
            angle = int(pos[0, t]) * 10_000 ** (-2 * i / 6)
            matrix = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
            close(turned[0, 0, t, [i, i + 3]], matrix.double() @ heads[0, 0, t, [i, i + 3]], 1e-6)


# ---------------------------------------------------------------- parameters


def parameters(design: Any, vocabulary: int) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in design.build(vocabulary).parameters())


def test_llama_7b_has_the_published_number_of_parameters() -> None:
    assert parameters(recipes.llama(), 32_000) == 6_738_415_616


def test_gpt2_has_the_published_number_of_parameters() -> None:
    assert parameters(recipes.gpt2(), 50_257) == 124_439_808


@pytest.mark.parametrize(("recipe", "d", "inner"), [(recipes.base, 512, 2048), (recipes.big, 1024, 4096)])
def test_the_papers_models_by_formula(recipe: Any, d: int, inner: int) -> None:
    attention, norm, feed = 4 * d * d + 4 * d, 2 * d, 2 * d * inner + inner + d
    encoder, decoder = attention + feed + 2 * norm, 2 * attention + feed + 3 * norm
    assert parameters(recipe(), 37_000) == 37_000 * d + 6 * (encoder + decoder)


def test_learned_positions_and_untied_vocabularies_are_counted() -> None:
    plain = EncoderDecoderDesign(width=16, heads=2, encoder_layers=1, decoder_layers=1)
    more = EncoderDecoderDesign(
        width=16, heads=2, encoder_layers=1, decoder_layers=1, positions=Learned(), longest=9, tie_embeddings="none"
    )
    assert parameters(more, 50) - parameters(plain, 50) == 2 * 50 * 16 + 2 * 9 * 16


def test_swish_is_silu() -> None:
    layer = Swish(width=8).build(Size(width=4, heads=1, key_heads=1, head_width=4), bias=True)
    x = torch.randn(1, 3, 4)
    inner = layer.get_submodule("up")(x)
    close(layer(x), layer.get_submodule("down")(inner * torch.sigmoid(inner)))
