"""What every part must keep, over all members of every family: a new variant is tested as soon as it is listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from headway.model.blocks import Place
from headway.model.design import Design, EncoderDecoderDesign, LanguageModelDesign, TextEncoderDesign, objection
from headway.model.feed_forward import FeedForward
from headway.model.kernels import Fused, Linear, Linformer, Mixing, Softmax
from headway.model.kernels.linear import feature
from headway.model.kernels.scores import Score
from headway.model.mask import Mask
from headway.model.models import EncoderDecoder, LanguageModel, Rows
from headway.model.norms import BatchNorm, Norm
from headway.model.positions import NoPositions, Position, Rotary, Sinusoidal
from headway.model.residuals import Residual
from headway.model.size import Size
from headway.model.states import Fixed, Growing, Indexed, State, Sums

SIZE = Size(width=16, heads=4, key_heads=2, head_width=4, longest=12)
WORDS = 11
EXACT = {torch.float64: 1e-12, torch.float32: 1e-5}
ROOMS = {"growing": Growing, "fixed": lambda: Fixed(12)}

# ---------------------------------------------------------------- every variant, and every pair of them


def members(family: Any) -> list[Any]:
    return [member() for member in get_args(family)]


SCORES = [Softmax(score=score) for score in members(Score)]
MIXINGS = list(dict.fromkeys([*members(Mixing), *SCORES, Fused(scaled=False)]))


def pairs(causal: bool) -> list[tuple[Any, Any]]:
    every = product(members(Position), MIXINGS)
    return [(position, mixing) for position, mixing in every if objection(position, mixing, SIZE, causal) is None]


def shapes() -> list[dict[str, Any]]:
    """Every norm in every place, and every feed-forward layer."""
    around = [{"norm": norm, "residual": residual} for norm, residual in product(members(Norm), members(Residual))]
    return around + [{"feed_forward": kind} for kind in members(FeedForward)]


CAUSAL = [{"positions": position, "attention": mixing} for position, mixing in pairs(causal=True)]
LOOKING_EVERYWHERE = [{"positions": position, "attention": mixing} for position, mixing in pairs(causal=False)]
SHAPES = shapes()


def named(choice: dict[str, Any]) -> str:
    return "-".join(describe(part) for part in choice.values())


def describe(part: Any) -> str:
    return "_".join([part.kind, *(["unscaled"] if part == Fused(scaled=False) else []), *score(part)])


def score(part: Any) -> list[str]:
    return [part.score.kind] if isinstance(part, Softmax) else []


def every(choices: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("choice", choices, ids=named)


# ---------------------------------------------------------------- small models


def size_of(kind: type[Design], choice: dict[str, Any]) -> dict[str, Any]:
    layers = {"encoder_layers": 2, "decoder_layers": 2} if kind is EncoderDecoderDesign else {"layers": 2}
    small = {"width": SIZE.width, "heads": SIZE.heads, "key_heads": SIZE.key_heads, "longest": SIZE.longest}
    return small | layers | {"dropout": 0.1} | choice


def wake(model: nn.Module, dtype: torch.dtype) -> Any:
    """Parameters that begin at zero or one would hide mistakes; so would the norms' untouched statistics."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.add_(torch.rand_like(buffer))
    return model.eval().to(dtype)


def translator(choice: dict[str, Any], dtype: torch.dtype = torch.float64) -> EncoderDecoder:
    return wake(EncoderDecoderDesign(**size_of(EncoderDecoderDesign, choice)).build(WORDS), dtype)


def language_model(choice: dict[str, Any], dtype: torch.dtype = torch.float64) -> LanguageModel:
    return wake(LanguageModelDesign(**size_of(LanguageModelDesign, choice)).build(WORDS), dtype)


def text_encoder(choice: dict[str, Any], dtype: torch.dtype = torch.float64) -> Any:
    return wake(TextEncoderDesign(**size_of(TextEncoderDesign, choice)).build(WORDS), dtype)


def words(rows: int, length: int) -> Tensor:
    return torch.randint(4, WORDS, (rows, length))


def padded(rows: int, length: int) -> Tensor:
    """Each row one token shorter than the row before."""
    ids = words(rows, length)
    for row in range(rows):
        ids[row, length - row :] = 0
    return ids


def steps(model: Any, rows: Rows, ids: Tensor) -> Tensor:
    return torch.stack([model.step(column, rows) for column in ids.unbind(1)], dim=1)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=EXACT[a.dtype] * max(1.0, float(b.detach().abs().max())))


def same(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=0)


# ---------------------------------------------------------------- step by step = all at once


@pytest.mark.parametrize(
    ("dtype", "room"),
    [(torch.float64, Growing), (torch.float64, ROOMS["fixed"]), (torch.float32, Growing)],
    ids=["growing", "fixed", "single"],
)
@every(CAUSAL + SHAPES)
@torch.no_grad()
def test_step_by_step_is_all_at_once(choice: dict[str, Any], dtype: torch.dtype, room: Callable[[], State]) -> None:
    source, target = padded(3, 6), words(3, 7)
    model = translator(choice, dtype)
    close(steps(model, model.start(source, room), target), model(source, target))
    model = language_model(choice, dtype)
    close(steps(model, model.start(3, room), target), model(target))


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
@every(CAUSAL)
@torch.no_grad()
def test_a_prefix_may_be_fed_at_once(choice: dict[str, Any], room: Callable[[], State]) -> None:
    source, target = padded(2, 5), words(2, 8)
    model = translator(choice)
    rows = model.start(source, room)
    begun = model.feed(target[:, :4], rows)
    continued = model.feed(target[:, 4:6], rows)
    close(torch.cat([begun, continued, steps(model, rows, target[:, 6:])], dim=1), model(source, target))


@every([{"cross_attention": mixing} for mixing in MIXINGS])
@torch.no_grad()
def test_every_kernel_reads_the_source(choice: dict[str, Any]) -> None:
    source, target = padded(2, 5), words(2, 4)
    model = translator(choice)
    close(steps(model, model.start(source), target), model(source, target))


@every([choice for choice in CAUSAL if not isinstance(choice["attention"], Linear)])
@torch.no_grad()
def test_rows_may_stand_at_different_places(choice: dict[str, Any]) -> None:
    """A finished row is given to another sentence while its neighbour goes on."""
    model, ids, later = language_model(choice), words(2, 7), words(1, 4)
    rows = model.start(2, lambda: Fixed(12))
    rows.pos = torch.zeros(2, 1, dtype=torch.long)
    first = steps(model, rows, ids[:, :3])
    rows.pos = torch.tensor([[3], [0]])
    second = steps(model, rows, torch.cat([ids[:1, 3:], later]))
    close(torch.cat([first[:1], second[:1]], dim=1), model(ids[:1]))
    close(second[1:], model(later))


# ---------------------------------------------------------------- what must not be seen


@every(CAUSAL + SHAPES)
@torch.no_grad()
def test_the_future_changes_nothing(choice: dict[str, Any]) -> None:
    source, target = words(2, 5), words(2, 7)
    disturbed = torch.cat([target[:, :4], words(2, 3)], dim=1)
    model = translator(choice, torch.float32)
    same(model(source, disturbed)[:, :4], model(source, target)[:, :4])
    model = language_model(choice, torch.float32)
    same(model(disturbed)[:, :4], model(target)[:, :4])


def disturb_padding(model: nn.Module) -> None:
    for table in {
        model.get_parameter(name) for name, _ in model.named_parameters() if name.endswith("embedding.weight")
    }:
        table[0] += 5 * torch.randn_like(table[0])


@every(CAUSAL + SHAPES)
@torch.no_grad()
def test_padding_changes_nothing(choice: dict[str, Any]) -> None:
    source, target = padded(3, 6), padded(3, 7)
    model = translator(choice, torch.float32)
    before = model.hidden(source, target)[target != 0]
    disturb_padding(model)
    same(model.hidden(source, target)[target != 0], before)


@every(LOOKING_EVERYWHERE + SHAPES)
@torch.no_grad()
def test_padding_changes_nothing_in_an_encoder(choice: dict[str, Any]) -> None:
    ids = padded(3, 6)
    model = text_encoder(choice, torch.float32)
    before = model(ids)[ids != 0]
    disturb_padding(model)
    same(model(ids)[ids != 0], before)


@every(LOOKING_EVERYWHERE + SHAPES)
@torch.no_grad()
def test_more_padding_changes_nothing(choice: dict[str, Any]) -> None:
    ids, model = padded(3, 6), text_encoder(choice)
    longer = torch.cat([ids, torch.zeros(3, 4, dtype=torch.long)], dim=1)
    close(model(longer)[:, :6][ids != 0], model(ids)[ids != 0])


# ---------------------------------------------------------------- places


def relative(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice for choice in choices if choice["positions"].build(SIZE).relative]


@every(relative(LOOKING_EVERYWHERE))
@torch.no_grad()
def test_moving_all_positions_changes_nothing(choice: dict[str, Any]) -> None:
    model, x = text_encoder(choice), torch.randn(2, 6, SIZE.width, dtype=torch.float64)
    pos = torch.arange(6)[None]
    close(model.stack(x, Place(pos + 37, Mask())), model.stack(x, Place(pos, Mask())))


@every(relative(CAUSAL))
@torch.no_grad()
def test_moving_all_positions_changes_nothing_for_a_language_model(choice: dict[str, Any]) -> None:
    model, x = language_model(choice), torch.randn(2, 6, SIZE.width, dtype=torch.float64)
    pos = torch.arange(6)[None]
    close(model.stack(x, Place(pos + 37, Mask(causal=True))), model.stack(x, Place(pos, Mask(causal=True))))


@every(relative(CAUSAL))
def test_two_segments_with_memory_are_one(choice: dict[str, Any]) -> None:
    ids = words(2, 8)
    model = language_model(choice | {"memory": 8})
    first, memory = model.hidden(ids[:, :3])
    second, memory = model.hidden(ids[:, 3:], memory)
    close(torch.cat([first, second], dim=1), model.hidden(ids)[0])
    assert [tuple(layer.shape) for layer in memory] == [(2, 8, SIZE.width)] * 2
    assert not any(layer.requires_grad for layer in memory)


def test_memory_keeps_the_newest_tokens_only() -> None:
    model, ids = language_model({"positions": Rotary(), "memory": 4}), words(1, 6)
    _, all_of_it = language_model({"positions": Rotary(), "memory": 6}).hidden(ids)
    _, memory = model.hidden(ids[:, :3])
    _, memory = model.hidden(ids[:, 3:], memory)
    assert [layer.size(1) for layer in memory] == [4, 4]
    assert [layer.size(1) for layer in all_of_it] == [6, 6]
    assert language_model({}).hidden(ids)[1] == []


@pytest.mark.parametrize("norm", members(Norm), ids=lambda norm: norm.kind)
def test_norms_keep_the_precision_of_a_model_in_half(norm: Any) -> None:
    x = torch.randn(2, 3, 8, dtype=torch.bfloat16)
    assert norm.build(8).to(x.dtype).eval()(x).dtype == x.dtype


def test_batch_norm_is_torchs_over_the_real_tokens() -> None:
    """In training and after it, with the same gradients; what follows padding does not count."""
    ours, theirs = BatchNorm().build(6).double(), torch.nn.BatchNorm1d(6, dtype=torch.float64)
    real = torch.arange(5) < torch.tensor([[5], [2], [3]])
    for training in (True, True, False):
        ours.train(training), theirs.train(training)
        x = torch.randn(3, 5, 6, dtype=torch.float64, requires_grad=True)
        mine, wanted = ours(x, real), theirs(x[real])
        close(mine[real], wanted)
        assert not mine[~real].any()
        slope = torch.randn_like(wanted)
        close(*(torch.autograd.grad((y * slope).sum(), x)[0] for y in (mine[real], wanted)))
    for name, tensor in theirs.state_dict().items():
        close(ours.state_dict()[name].double(), tensor.double())


def test_a_rotation_before_phi_would_depend_on_the_place() -> None:
    """Why linear attention refuses rotary positions."""
    turn = Rotary().build(SIZE).rotate
    q, k, pos = *torch.randn(2, 1, 1, 5, 4, dtype=torch.float64), torch.arange(5)[None]
    here, there = (feature(turn(q, pos + n)) @ feature(turn(k, pos + n)).mT for n in (0, 37))
    assert (here - there).abs().max() > 0.1


# ---------------------------------------------------------------- rows of a search


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
@every(CAUSAL)
@torch.no_grad()
def test_select_commutes_with_step(choice: dict[str, Any], room: Callable[[], State]) -> None:
    source, target, order = padded(3, 5), words(3, 5), torch.tensor([2, 0, 0, 1])
    model = translator(choice)
    rows = model.start(source, room)
    steps(model, rows, target[:, :3])
    rows.select(order)
    after = steps(model, rows, target[order, 3:])
    close(after, model(source, target)[order, 3:])

    model = language_model(choice)
    rows = model.start(3, room)
    steps(model, rows, target[:, :3])
    rows.select(order)
    close(steps(model, rows, target[order, 3:]), model(target)[order, 3:])


BEAM = 3


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
@every([*CAUSAL, *({"cross_attention": mixing} for mixing in MIXINGS)])
@torch.no_grad()
def test_a_beam_is_rows_that_share_a_source(choice: dict[str, Any], room: Callable[[], State]) -> None:
    """Spread to a beam, reorder inside each, drop a sentence, part: always what separate rows would give."""
    source, model = padded(2, 5), translator(choice)
    text = words(2, 1)
    rows = model.start(source, room)
    model.step(text[:, 0], rows)

    def follow(order: list[int], sentences: list[int]) -> None:
        nonlocal text
        text = torch.cat([text[order], words(len(order), 1)], dim=1)
        close(model.step(text[:, -1], rows), model(source[sentences], text)[:, -1])

    spread = [0] * BEAM + [1] * BEAM
    rows.reorder(torch.tensor(spread))
    follow(spread, spread)
    inside = [2, 0, 0, 4, 3, 5]
    rows.reorder(torch.tensor(inside))
    follow(inside, spread)
    rows.keep(torch.tensor([1]), BEAM)
    follow([3, 4, 5], [1] * BEAM)
    rows.select(torch.tensor([2, 0]))
    follow([2, 0], [1, 1])


@every(CAUSAL)
@torch.no_grad()
def test_an_index_of_who_wrote_what_is_as_good_as_moving_keys(choice: dict[str, Any]) -> None:
    """Rows that keep their number, as in a recorded search; kernels that cannot follow an index get no index."""
    source, model, text = padded(2, 5), translator(choice), words(6, 1)
    sentences = [0] * BEAM + [1] * BEAM
    rows = model.start(source, lambda: Indexed(12))
    for order in ([2, 0, 0, 4, 3, 5], [1, 1, 2, 5, 5, 3], [0, 1, 1, 3, 3, 3], [2, 1, 0, 5, 4, 3]):
        close(model.step(text[:, -1], rows), model(source[sentences], text)[:, -1])
        rows.reorder(torch.tensor(order))
        text = torch.cat([text[order], words(6, 1)], dim=1)


# ---------------------------------------------------------------- kernels against their references


def masks() -> Iterator[tuple[str, Mask, int]]:
    keys = torch.arange(6) < torch.tensor([[6], [4]])
    pos = torch.arange(6)[None]
    yield "everything", Mask().at(pos, pos), 6
    yield "padding", Mask(keys=keys).at(pos, pos), 6
    yield "causal", Mask(causal=True).at(pos, pos), 6
    yield "causal after memory", Mask(causal=True).at(pos[:, 2:], pos), 4
    yield "both", Mask(keys=keys, causal=True).at(pos, pos.clone()), 6


@pytest.mark.parametrize("dtype", EXACT, ids=["double", "single"])
@pytest.mark.parametrize("mixing", MIXINGS, ids=describe)
def test_every_kernel_agrees_with_its_reference(mixing: Any, dtype: torch.dtype) -> None:
    kernel = mixing.build(SIZE, 0.0).to(dtype)
    reference = kernel.reference()
    for _, mask, queries in masks():
        if mask.causal and not kernel.causal:
            continue
        q = torch.randn(2, 4, queries, 4, dtype=dtype, requires_grad=True)
        k, v = (torch.randn(2, 4, 6, 4, dtype=dtype, requires_grad=True) for _ in "kv")
        for bias in [None, torch.randn(1, 4, queries, 6, dtype=dtype)] if kernel.biased else [None]:
            fast, slow = (one(q, k, v, mask, bias, State()) for one in (kernel, reference))
            close(fast, slow)
            weight = torch.randn_like(fast)
            for a, b in zip(*(torch.autograd.grad((x * weight).sum(), (q, k, v)) for x in (fast, slow)), strict=True):
                close(a, b)


@pytest.mark.parametrize("mixing", MIXINGS, ids=describe)
def test_weights_sum_to_one_and_padding_gets_none(mixing: Any) -> None:
    reference = mixing.build(SIZE, 0.0).reference()
    seen: list[Tensor] = []
    reference.weights.register_forward_hook(lambda *passed: seen.append(passed[2]))
    for name, mask, queries in masks():
        if mask.causal and not reference.causal:
            continue
        reference(torch.randn(2, 4, queries, 4), *torch.randn(2, 2, 4, 6, 4), mask, None, State())
        weights = seen.pop()
        close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        hidden = mask.dense()
        if hidden is not None and weights.size(-1) == 6:  # linformer mixes keys before it weighs them
            assert (weights.masked_select(~hidden.expand_as(weights)) == 0).all(), name


def test_linformer_with_identity_projections_is_softmax() -> None:
    kernel = Linformer(rank=6).build(replace(SIZE, longest=6), 0.0).double()
    kernel.shrink_k.data = torch.eye(6, dtype=torch.float64)
    q, k, v = torch.randn(3, 2, 4, 6, 4, dtype=torch.float64)
    softmax = Softmax().build(SIZE, 0.0)
    close(kernel(q, k, v, Mask(), None, State()), softmax(q, k, v, Mask(), None, State()))
    shared, apart = (
        sum(p.numel() for p in Linformer(rank=6, shared=s).build(SIZE, 0.0).parameters()) for s in (True, False)
    )
    assert apart == 2 * shared


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 64])
@pytest.mark.parametrize("older", [0, 4])
def test_linear_attention_is_its_matrix(chunk: int, older: int) -> None:
    """phi(q) phi(k)^T, the lower triangle, rows divided by their sums; whatever the chunk."""
    kernel = Linear(chunk=chunk).build(SIZE, 0.0)
    q = torch.randn(2, 4, 7, 4, dtype=torch.float64)
    k, v = torch.randn(2, 2, 4, 7 + older, 4, dtype=torch.float64)
    fit = torch.einsum("bhqe,bhke->bhqk", torch.where(q > 0, q + 1, q.exp()), torch.where(k > 0, k + 1, k.exp()))
    past = fit.tril(diagonal=older)
    pos = torch.arange(-older, 7)[None]
    expected = past @ v / past.sum(-1, keepdim=True)
    close(kernel(q, k, v, Mask(causal=True).at(pos[:, older:], pos), None, State()), expected)
    everywhere = fit @ v / fit.sum(-1, keepdim=True)
    close(kernel(q, k, v, Mask(), None, State()), everywhere)


def test_linear_attention_remembers_a_constant_amount() -> None:
    model = language_model({"positions": Sinusoidal(), "attention": Linear()})
    rows, held = model.start(1), []
    for _ in range(9):
        model.step(words(1, 1)[:, 0], rows)
        state = rows.states[0].own
        assert isinstance(state, Sums) and state.held is not None
        held.append(sum(sums.numel() for sums in state.held))
    assert set(held) == {SIZE.heads * SIZE.head_width * (SIZE.head_width + 1)}


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("mixing", MIXINGS, ids=describe)
@pytest.mark.parametrize("position", members(Position), ids=describe)
def test_a_pair_is_built_or_refused_with_its_reason(position: Any, mixing: Any) -> None:
    choice = {"positions": position, "attention": mixing}
    for kind, build, causal in ((TextEncoderDesign, text_encoder, False), (LanguageModelDesign, language_model, True)):
        reason = objection(position, mixing, SIZE, causal)
        if reason is None:
            assert torch.isfinite(build(choice)(words(1, 4))).all()
            continue
        with pytest.raises(ValueError, match=f"{mixing.kind}|{position.kind}") as refused:
            kind(**size_of(kind, choice))
        assert str(refused.value) == reason
        assert "\n" not in reason


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"attention": Linear(), "positions": Rotary()}, "linear attention cannot use rotary positions: they rotate"),
        ({"attention": Linformer()}, "linformer attention cannot hide the future"),
        ({"positions": Rotary(), "head_width": 3}, "head width is 3; rotary positions need an even one"),
        ({"width": 15, "heads": 3, "key_heads": None}, "width is 15; sinusoidal positions need an even width"),
    ],
    ids=["rotated", "causal", "odd head", "odd width"],
)
def test_what_is_refused_says_why(choice: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        EncoderDecoderDesign(**size_of(EncoderDecoderDesign, choice))


def test_checking_a_design_uses_no_random_numbers() -> None:
    before = torch.get_rng_state()
    for choice in CAUSAL:
        LanguageModelDesign(**size_of(LanguageModelDesign, choice))
    same(torch.get_rng_state(), before)


# ---------------------------------------------------------------- the rest of the model


def test_grouped_heads_are_heads_that_share_keys() -> None:
    """Repeating the weights of each key head gives the same model with as many key heads as heads."""
    grouped = language_model({"positions": Rotary()})
    full = language_model({"positions": Rotary(), "key_heads": SIZE.heads})
    state = grouped.state_dict()
    for name in [name for name in state if ".qkv." in name]:
        q, k, v = state[name].split([16, 8, 8])
        spread = [x.unflatten(0, (2, 4)).repeat_interleave(2, dim=0).flatten(0, 1) for x in (k, v)]
        state[name] = torch.cat([q, *spread])
    full.load_state_dict(state)
    ids = words(2, 6)
    close(grouped(ids), full(ids))


@pytest.mark.parametrize(("reads", "unread"), [("last", None), ("each", None), ((0, 0), 1), ((1, 0), None)], ids=str)
@torch.no_grad()
def test_decoder_layers_read_the_encoder_layers_they_are_told_to(reads: Any, unread: int | None) -> None:
    model, source, target = translator({"attended_layers": reads}), words(2, 5), words(2, 4)
    for layer in range(2):
        before = model(source, target)
        model.encoder.layers[layer].get_parameter("feed_forward.up.weight").add_(1.0)
        changed = not torch.equal(model(source, target), before)
        assert changed == (layer != unread)


@pytest.mark.parametrize("choice", CAUSAL + SHAPES, ids=named)
def test_every_parameter_learns(choice: dict[str, Any]) -> None:
    """A parameter without a gradient is one the model does not use."""
    model = translator(choice)
    model(words(2, 5), words(2, 4)).log_softmax(-1)[..., 5].sum().backward()
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert without == []


def test_without_positions_nothing_is_added() -> None:
    x = torch.randn(2, 3, 16)
    same(NoPositions().build(SIZE).embed(x, torch.arange(3)[None]), x)
