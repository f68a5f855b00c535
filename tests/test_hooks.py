"""Looking inside: what is recorded is what was used, and nothing changes by looking."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.errors import UsageError
from headway.model.attention import Attention
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign, TextEncoderDesign
from headway.model.hooks import ablate, attention_layers, record
from headway.model.kernels import Fused, Linear, Linformer, Softmax
from headway.model.kernels.scores import Additive, Cosine
from headway.model.models import EncoderDecoder
from headway.model.positions import Rotary, Sinusoidal, TransformerXL

EXACT = {torch.float64: 1e-12, torch.float32: 1e-5}
WORDS, LAYERS, HEADS = 13, 2, 4
CROSS = "decoder.layers.1.cross_attention"


def translator(dtype: torch.dtype = torch.float64, **choice: Any) -> EncoderDecoder:
    design = EncoderDecoderDesign(width=16, heads=HEADS, encoder_layers=LAYERS, decoder_layers=LAYERS, **choice)
    return design.build(WORDS).eval().to(dtype)


def words(rows: int, length: int) -> Tensor:
    return torch.randint(4, WORDS, (rows, length))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=EXACT[a.dtype])


@pytest.fixture
def source() -> Tensor:
    ids = words(2, 6)
    ids[1, 4:] = 0
    return ids


@pytest.mark.parametrize("dtype", EXACT, ids=["double", "single"])
@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"positions": Rotary(), "key_heads": 2},
        {"positions": TransformerXL()},
        {"attention": Softmax(score=Cosine()), "cross_attention": Softmax(score=Additive())},
        {"attention": Linear(), "cross_attention": Linear()},
        {"encoder_attention": Linformer(rank=5)},
    ],
    ids=["fused", "rotary", "transformer_xl", "scores", "linear", "linformer"],
)
@torch.no_grad()
def test_looking_changes_nothing(choice: dict[str, Any], dtype: torch.dtype, source: Tensor) -> None:
    model, target = translator(dtype, **choice), words(2, 5)
    before, kernels = model(source, target), [layer.kernel for layer in attention_layers(model).values()]
    with record(model) as seen:
        close(model(source, target), before)
    assert torch.equal(model(source, target), before)
    assert all(a is b.kernel for a, b in zip(kernels, attention_layers(model).values(), strict=True))
    for name in seen.names:
        close(seen.attention(name).sum(-1), torch.ones(2, HEADS, 5 if "decoder" in name else 6, dtype=dtype))


@torch.no_grad()
def test_every_layer_head_and_kind_has_a_name(source: Tensor) -> None:
    model, target = translator(), words(2, 5)
    with record(model) as seen:
        model(source, target)
    shapes = {name: tuple(seen.attention(name).shape) for name in seen.names}
    assert shapes == {
        **{f"encoder.layers.{n}.self_attention": (2, HEADS, 6, 6) for n in range(LAYERS)},
        **{f"decoder.layers.{n}.self_attention": (2, HEADS, 5, 5) for n in range(LAYERS)},
        **{f"decoder.layers.{n}.cross_attention": (2, HEADS, 5, 6) for n in range(LAYERS)},
    }
    assert (seen.attention(CROSS)[1, :, :, 4:] == 0).all()  # padding
    assert (seen.attention("decoder.layers.0.self_attention").triu(1) == 0).all()  # the future
    for name, length in (("encoder.layers.1", 6), ("decoder.layers.0", 5)):
        assert seen.norms(name).shape == (2, length)


@torch.no_grad()
def test_other_models_are_seen_too() -> None:
    ids = words(2, 5)
    small = {"width": 16, "heads": HEADS, "layers": LAYERS}
    for model in (LanguageModelDesign(**small).build(WORDS).eval(), TextEncoderDesign(**small).build(WORDS).eval()):
        with record(model) as seen:
            model(ids)
        assert seen.names == [f"stack.layers.{n}.self_attention" for n in range(LAYERS)]
        assert list(seen.hidden) == [f"stack.layers.{n}" for n in range(LAYERS)]


@torch.no_grad()
def test_the_weights_are_those_of_the_formula(source: Tensor) -> None:
    """softmax(q k^T / sqrt(e)) of the layer's own projections; norms are of the layer's own output."""
    model = translator()
    passes: list[tuple[Tensor, Tensor]] = []
    model.encoder.layers[0].register_forward_hook(lambda *passed: passes.append((passed[1][0], passed[2])))
    with record(model) as seen:
        model.encode(source)
    layer = model.encoder.layers[0].get_submodule("self_attention")
    assert isinstance(layer, Attention)
    q, k, _ = (x.unflatten(-1, (HEADS, 4)).transpose(1, 2) for x in layer.qkv(passes[0][0]).chunk(3, dim=-1))
    scores = (q @ k.mT / math.sqrt(4)).masked_fill((source == 0)[:, None, None], -torch.inf)
    close(seen.attention("encoder.layers.0.self_attention"), scores.softmax(-1))
    close(seen.norms("encoder.layers.0"), passes[0][1].square().sum(-1).sqrt())


def test_recorded_weights_carry_no_gradient(source: Tensor) -> None:
    model = translator()
    with record(model) as seen:
        model(source, words(2, 3)).sum().backward()
    assert not seen.attention(CROSS).requires_grad
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_everything_is_put_back_after_an_error(source: Tensor) -> None:
    model, target = translator(), words(2, 5)
    before = [layer.kernel for layer in attention_layers(model).values()]
    with pytest.raises(RuntimeError, match="stop"), record(model), ablate(model, [(CROSS, 0)]):
        model(source, target)
        raise RuntimeError("stop")
    assert [layer.kernel for layer in attention_layers(model).values()] == before
    hooked = [name for name, module in model.named_modules() if module._forward_hooks or module._forward_pre_hooks]
    assert hooked == []


@torch.no_grad()
def test_steps_joined_are_the_whole_pass(source: Tensor) -> None:
    for choice in ({}, {"positions": Sinusoidal(), "attention": Linear()}):
        model, target = translator(**choice), words(2, 6)
        with record(model) as whole:
            model(source, target)
        with record(model) as stepwise:
            rows = model.start(source)
            for column in target.unbind(1):
                model.step(column, rows)
        for name in whole.names:
            close(stepwise.attention(name), whole.attention(name))
        assert [weights.size(-1) for weights in stepwise.calls["decoder.layers.0.self_attention"]] == [1, 2, 3, 4, 5, 6]
        assert stepwise.norms("decoder.layers.1").shape == (2, 6)


@torch.no_grad()
def test_beams_are_unfolded_to_rows(source: Tensor) -> None:
    model, first, second = translator(), words(2, 1), words(6, 1)
    spread = torch.tensor([0, 0, 0, 1, 1, 1])
    with record(model) as seen:
        rows = model.start(source)
        model.step(first[:, 0], rows)
        rows.reorder(spread)
        model.step(second[:, 0], rows)
    with record(model) as apart:
        model(source[spread], torch.cat([first[spread], second], dim=1))
    assert [len(weights) for weights in seen.calls[CROSS]] == [2, 6]
    close(seen.calls[CROSS][1], apart.attention(CROSS)[:, :, 1:])
    with pytest.raises(ValueError, match="the number of rows changed between steps"):
        seen.attention(CROSS)


@torch.no_grad()
def test_entropy_is_zero_at_one_key_and_log_k_at_all(source: Tensor) -> None:
    model = translator()
    model.get_parameter("decoder.layers.1.cross_attention.qkv.weight").zero_()  # every score is the same
    with record(model) as seen:
        model(source, words(2, 3))
    lengths = torch.tensor([6.0, 4.0], dtype=torch.float64)
    close(seen.entropy(CROSS), lengths.log()[:, None, None].expand(2, HEADS, 3))
    own = seen.entropy("decoder.layers.0.self_attention")
    close(own[:, :, 0], torch.zeros(2, HEADS, dtype=torch.float64))  # the first token sees itself alone
    assert (own[:, :, 1:] > 0).all()


def test_a_kernel_must_show_its_weights(source: Tensor) -> None:
    model = translator()
    blind = attention_layers(model)[CROSS].kernel
    blind.reference = lambda: blind  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="writes no weights down"), record(model):
        pass


# ---------------------------------------------------------------- silencing heads


def outputs_of(model: EncoderDecoder, name: str, source: Tensor, target: Tensor) -> Tensor:
    kept: list[Tensor] = []
    hook = attention_layers(model)[name].register_forward_hook(lambda *passed: kept.append(passed[2]))
    model(source, target)
    hook.remove()
    return kept[0]


@pytest.mark.parametrize("name", ["encoder.layers.0.self_attention", "decoder.layers.0.self_attention", CROSS])
@torch.no_grad()
def test_a_layer_without_heads_gives_its_bias(name: str, source: Tensor) -> None:
    model, target = translator(), words(2, 5)
    bias = attention_layers(model)[name].out.bias.normal_()
    with ablate(model, [(name, head) for head in range(HEADS)]):
        silent = outputs_of(model, name, source, target)
    close(silent, bias.expand_as(silent))


@torch.no_grad()
def test_heads_add_up(source: Tensor) -> None:
    """A layer's output is the sum of what its heads bring, and its bias once."""
    model, target = translator(), words(2, 5)
    name = "encoder.layers.0.self_attention"
    bias = attention_layers(model)[name].out.bias.normal_()
    whole = outputs_of(model, name, source, target)
    alone = []
    for head in range(HEADS):
        with ablate(model, [(name, other) for other in range(HEADS) if other != head]):
            alone.append(outputs_of(model, name, source, target) - bias)
    close(sum(alone, bias), whole)


@torch.no_grad()
def test_silence_lasts_as_long_as_the_block(source: Tensor) -> None:
    model, target = translator(), words(2, 5)
    before = model(source, target)
    with ablate(model, [(CROSS, 1)]):
        with record(model) as seen:
            during = model(source, target)
        rows = model.start(source)
        steps = torch.stack([model.step(column, rows) for column in target.unbind(1)], dim=1)
    close(steps, during)
    assert (during - before).abs().max() > 1e-6
    close(seen.attention(CROSS).sum(-1), torch.ones(2, HEADS, 5, dtype=torch.float64))
    assert torch.equal(model(source, target), before)


@pytest.mark.parametrize(
    ("head", "line"),
    [
        (("encoder.layers.0.self_atention", 0), "did you mean encoder.layers.0.self_attention?"),
        (("nothing", 0), "there are 6, from encoder.layers.0.self_attention to decoder.layers.1.cross_attention"),
        ((CROSS, 4), "decoder.layers.1.cross_attention has heads 0 to 3, not 4"),
        ((CROSS, -1), "has heads 0 to 3, not -1"),
    ],
)
def test_heads_that_do_not_exist_are_named(head: tuple[str, int], line: str) -> None:
    with pytest.raises(UsageError, match=line), ablate(translator(), [head]):
        pass


def test_nothing_recorded_says_so() -> None:
    with record(translator()) as seen:
        pass
    for ask, kind in product((seen.attention, seen.norms), (CROSS, "encoder.layers.0")):
        with pytest.raises(UsageError, match="nothing has passed through yet"):
            ask(kind)


def test_fused_attention_never_writes_its_weights_down() -> None:
    """Why kernels are exchanged at all: the fast path has no such matrix."""
    assert not hasattr(Fused().build(EncoderDecoderDesign().size(), 0.0), "weights")
