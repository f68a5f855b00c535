"""What the paper says of its parts, each claim as a test."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import jaxtyping
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from headway import recipes
from headway.model.attention import Attention
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign, TextEncoderDesign
from headway.model.dropout import Dropout
from headway.model.feed_forward import Relu, Swiglu
from headway.model.functions import frequencies, pick, sinusoid
from headway.model.kernels import Fused, Linear, Linformer, Softmax
from headway.model.mask import Mask
from headway.model.models import positions_of
from headway.model.norms import BatchNorm, LayerNorm, RMSNorm
from headway.model.positions import Learned, NoPositions, Rotary, Sinusoidal
from headway.model.residuals import DeepNorm, Post, Pre, ReZero, Sandwich
from headway.model.size import Size
from headway.model.states import State
from headway.text.vocabulary import BOS, EOS, PAD

SIZE = Size(width=16, heads=4, key_heads=4, head_width=4, longest=64)
WORDS = 17


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance, check_dtype=False)


def words(rows: int, length: int) -> Tensor:
    return torch.randint(4, WORDS, (rows, length))


def small(**choice: Any) -> Any:
    design = EncoderDecoderDesign(width=16, heads=4, encoder_layers=2, decoder_layers=2, **choice)
    return design.build(WORDS).double().eval()


# ---------------------------------------------------------------- attention


@pytest.mark.parametrize("a", [1.0, 10.0, 100.0])
def test_softmax_saturates(a: float) -> None:
    """For [a, a, 2a] the third probability is 0.576, 0.99991 and 1: the larger the scores, the fewer are heard."""
    scores = torch.tensor([a, a, 2 * a], dtype=torch.float64, requires_grad=True)
    y = scores.softmax(0)
    expected = {1.0: 0.576, 10.0: 0.99991, 100.0: 1.0}[a]
    assert y[2].item() == pytest.approx(expected, abs=5e-4 if a == 1 else 5e-6)
    assert y[2].item() == pytest.approx(1 / (1 + 2 * math.exp(-a)))


def test_the_softmax_jacobian() -> None:
    """It is diag(y) - y^T y, which vanishes as the scores grow."""
    sizes = []
    for a in (1.0, 10.0, 100.0):
        scores = torch.tensor([a, a, 2 * a], dtype=torch.float64)
        y = scores.softmax(0)
        jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(0), scores)
        assert isinstance(jacobian, Tensor)
        close(jacobian, y.diag() - torch.outer(y, y), 1e-12)
        sizes.append(float(jacobian.abs().max()))
    assert sizes[0] > 0.2 and sizes[1] < 1e-3 and sizes[2] < 1e-30


@pytest.mark.parametrize("width", [4, 64, 512])
def test_scores_have_variance_one_when_scaled(width: int) -> None:
    """Queries and keys of unit normals: the variance of their dot product is the head width, until it is scaled."""
    q, k = torch.randn(2, 100, 1, 30, width)
    size = Size(width=width, heads=1, key_heads=1, head_width=width)
    scaled, plain = (Softmax(score=score).build(size, 0.0).score(q, k) for score in scores())
    assert float(plain.var()) == pytest.approx(width, rel=0.1)
    assert float(scaled.var()) == pytest.approx(1.0, rel=0.1)


def scores() -> tuple[Any, Any]:
    from headway.model.kernels.scores import Dot, ScaledDot

    return ScaledDot(), Dot()


def attention(heads: int, bias: bool = True, kernel: Any = None) -> Attention:
    size = Size(width=16, heads=heads, key_heads=heads, head_width=16 // heads)
    return Attention(size, NoPositions().build(size), (kernel or Fused()).build(size, 0.0), bias).double()


def test_one_head_is_plain_attention() -> None:
    """softmax(Q K^T / sqrt(d_k)) V, equation 1."""
    layer, x, source = attention(1), torch.randn(2, 5, 16).double(), torch.randn(2, 7, 16).double()
    w_q, w_k, w_v = layer.qkv.weight.split(16)
    b_q, b_k, b_v = layer.qkv.bias.split(16)
    q, k, v = x @ w_q.T + b_q, source @ w_k.T + b_k, source @ w_v.T + b_v
    plain = torch.softmax(q @ k.mT / math.sqrt(16), dim=-1) @ v
    mine = layer(x, source, Mask(), torch.arange(5)[None], torch.arange(7)[None], State())
    close(mine, plain @ layer.out.weight.T + layer.out.bias, 1e-12)


def test_heads_attend_apart() -> None:
    """Concat(head_1 ... head_h) W_O: each head is plain attention over its own slice."""
    layer, x = attention(4, bias=False), torch.randn(2, 5, 16).double()
    pos = torch.arange(5)[None]
    heads = []
    for q, k, v in zip(*(w.split(4) for w in layer.qkv.weight.split(16)), strict=True):
        heads.append(torch.softmax((x @ q.T) @ (x @ k.T).mT / 2, dim=-1) @ (x @ v.T))
    close(layer(x, x, Mask(), pos, pos, State()), torch.cat(heads, dim=-1) @ layer.out.weight.T, 1e-12)


@pytest.mark.parametrize("kernel", [Fused(), Softmax(), Linear()], ids=lambda kernel: kernel.kind)
def test_without_positions_orders_cannot_be_told_apart(kernel: Any) -> None:
    """Attention is equivariant: permute the tokens, and the outputs are permuted likewise, nothing else."""
    order, ids = torch.randperm(8), words(2, 8)
    design = TextEncoderDesign(width=16, heads=4, layers=2, positions=NoPositions(), attention=kernel)
    model = design.build(WORDS).double().eval()
    close(model(ids[:, order]), model(ids)[:, order], 1e-12)
    placed = TextEncoderDesign(width=16, heads=4, layers=2, attention=kernel).build(WORDS).double().eval()
    assert (placed(ids[:, order]) - placed(ids)[:, order]).abs().max() > 1e-3


def test_a_causal_mask_tells_orders_apart_by_itself() -> None:
    model = LanguageModelDesign(width=16, heads=4, layers=2, positions=NoPositions()).build(WORDS).double().eval()
    ids = torch.tensor([[5, 6, 7], [6, 5, 7]])
    last = model(ids)[:, -1]
    assert (last[0] - last[1]).abs().max() > 1e-6


def work(kernel: Any, length: int) -> int:
    q = torch.randn(1, 4, length, 4)
    pos = torch.arange(length)[None]
    mask = Mask(causal=kernel.causal).at(pos, pos)
    with FlopCounterMode(display=False) as counter:
        kernel(q, q, q, mask, None, State())
    return counter.get_total_flops()


def test_attention_is_quadratic_in_length_and_its_relatives_linear() -> None:
    size = Size(width=16, heads=4, key_heads=4, head_width=4, longest=512)
    growth = {
        mixing.kind: work(kernel, 512) / work(kernel, 256)
        for mixing in (Softmax(), Linear(chunk=16), Linformer(rank=8))
        for kernel in [mixing.build(size, 0.0)]
    }
    assert growth["softmax"] == pytest.approx(4, rel=0.01)
    assert growth["linear"] == pytest.approx(2, rel=0.01)
    assert growth["linformer"] == pytest.approx(2, rel=0.01)


def test_attention_and_recurrence_cross_where_length_is_width() -> None:
    """O(n²·d) for mixing, O(n·d²) for a recurrent layer's own product: table 1 of the paper."""
    width = 64
    size = Size(width=width, heads=1, key_heads=1, head_width=width)
    kernel = Softmax().build(size, 0.0)

    def mixing(length: int) -> int:
        q = torch.randn(1, 1, length, width)
        with FlopCounterMode(display=False) as counter:
            kernel(q, q, q, Mask(), None, State())
        return counter.get_total_flops() // 2  # two products: scores and values

    def recurrence(length: int) -> int:
        with FlopCounterMode(display=False) as counter:
            torch.randn(length, width) @ torch.randn(width, width)
        return counter.get_total_flops()

    assert mixing(width) == recurrence(width)
    assert mixing(width // 2) < recurrence(width // 2)
    assert mixing(width * 2) > recurrence(width * 2)


# ---------------------------------------------------------------- positions


def waves(pos: Tensor, width: int = 64) -> Tensor:
    return sinusoid(pos, frequencies(width))


def test_sinusoids_are_the_papers() -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), cosine for odd; here sines first, then cosines."""
    table = waves(torch.arange(50), 8)
    for pos in range(50):
        for i in range(4):
            angle = pos / 10_000 ** (2 * i / 8)
            assert table[pos, i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[pos, i + 4].item() == pytest.approx(math.cos(angle), abs=1e-12)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_a_shift_is_a_linear_map(k: int) -> None:
    """PE(pos + k) = M_k PE(pos) with one matrix for all positions: a rotation of each pair of features."""
    pos, half = torch.arange(0, 1000, 13), 32
    cosine, sine = (k * frequencies(64)).cos().diag(), (k * frequencies(64)).sin().diag()
    matrix = torch.cat([torch.cat([cosine, sine], dim=1), torch.cat([-sine, cosine], dim=1)])
    close(waves(pos + k), waves(pos) @ matrix.T, 1e-9)
    close(matrix @ matrix.T, torch.eye(2 * half), 1e-12)


def test_likeness_falls_with_distance_and_knows_no_direction() -> None:
    """PE(p)·PE(p + k) depends on |k| alone: largest at itself, and smaller on the average the further away."""
    table = waves(torch.arange(400), 512)
    likeness = table @ table.T
    for k in (1, 5, 60):
        ahead, behind = likeness[100, 100 + k], likeness[100, 100 - k]
        assert ahead.item() == pytest.approx(behind.item(), abs=1e-9)
        assert likeness[200, 200 + k].item() == pytest.approx(ahead.item(), abs=1e-9)
    near = likeness[0, :8]
    assert (near.diff() < 0).all()
    by_distance = likeness[0, :384].unflatten(0, (6, 64)).mean(dim=1)
    assert (by_distance.diff() < 0).all()
    assert likeness[0, 0].item() == pytest.approx(256)


def test_lengths_never_seen_work_with_sinusoids() -> None:
    model = LanguageModelDesign(width=16, heads=4, layers=1, longest=16).build(WORDS).eval()
    assert torch.isfinite(model(words(1, 300))).all()
    blind = LanguageModelDesign(width=16, heads=4, layers=1, longest=16, positions=Learned()).build(WORDS).eval()
    assert blind.stack.positions.longest == 16
    with pytest.raises(IndexError):
        blind(words(1, 17))


def test_far_positions_stay_exact() -> None:
    """Angles are computed in double precision: a million tokens in, single precision would be off by percents."""
    pos = torch.tensor([[1_000_000]])
    x = Sinusoidal().build(SIZE).embed(torch.zeros(1, 1, 16), pos)
    assert x[0, 0, 0].item() == pytest.approx(math.sin(1_000_000), abs=1e-6)
    turned = Rotary().build(SIZE).rotate(torch.tensor([1.0, 0, 0, 0]).expand(1, 1, 1, 4), pos)
    assert turned[0, 0, 0, 0].item() == pytest.approx(math.cos(1_000_000), abs=1e-6)


# ---------------------------------------------------------------- norms


def padded_batch() -> tuple[Tensor, Tensor]:
    real = torch.arange(6) < torch.tensor([[6], [3], [1]])
    return torch.randn(3, 6, 16, dtype=torch.float64) * 3 + 1, real


def test_layer_norm_sees_one_token_alone() -> None:
    """Mean 0 and variance 1 over the features, whatever stands beside it."""
    x, real = padded_batch()
    norm = LayerNorm().build(16).double()
    y = norm(x, real)
    close(y.mean(-1), torch.zeros(3, 6), 1e-6)
    close(y.var(-1, correction=0), torch.ones(3, 6), 1e-4)
    for row in range(3):
        for t in range(6):
            close(norm(x[row : row + 1, t : t + 1]), y[row : row + 1, t : t + 1], 1e-12)


def test_rms_norm_by_formula() -> None:
    x, _ = padded_batch()
    norm = RMSNorm(epsilon=1e-6).build(16).double()
    nn.init.uniform_(norm.weight)
    close(norm(x), x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight, 1e-12)


def test_batch_norm_depends_on_its_neighbours() -> None:
    x, real = padded_batch()
    norm = BatchNorm().build(16).double().train()
    whole = norm(x, real)
    assert (norm(x[:1], real[:1]) - whole[:1])[real[:1]].abs().max() > 0.1  # another batch
    assert (norm(x[:, :3], real[:, :3]) - whole[:, :3])[real[:, :3]].abs().max() > 0.1  # another length


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_leaves_padding_out(training: bool) -> None:
    """The same as torch's on the real tokens alone, running statistics too."""
    x, real = padded_batch()
    mine, torchs = BatchNorm(momentum=0.3).build(16).double(), nn.BatchNorm1d(16, momentum=0.3).double()
    for norm in (mine, torchs):
        nn.init.uniform_(norm.weight)
        norm.running_mean.add_(0.5)
    torchs.load_state_dict(mine.state_dict())
    mine.train(training), torchs.train(training)
    expected = torchs(x[real])
    close(mine(x, real)[real], expected, 1e-12)
    assert (mine(x, real)[~real] == 0).all()
    if not training:
        close(mine(x), mine(x, torch.ones(3, 6, dtype=torch.bool)), 1e-12)
    mine.load_state_dict(torchs.state_dict())
    torchs(x[real]), mine(x + 100 * ~real[..., None], real)
    close(mine.running_mean, torchs.running_mean, 1e-12)
    close(mine.running_var, torchs.running_var, 1e-12)


# ---------------------------------------------------------------- residuals, feed-forward, embedding, dropout


def test_how_a_sublayer_joins_the_stream() -> None:
    x, norm = torch.randn(2, 3, 16), LayerNorm()
    plain = norm.build(16)

    def double(h: Tensor) -> Tensor:
        return 2 * h

    def join(place: Any) -> Tensor:
        return place.build(norm, SIZE, Dropout(0.0), False)(x, double)

    close(join(Post()), plain(x + 2 * x))
    close(join(Pre()), x + 2 * plain(x))
    close(join(Sandwich()), x + plain(2 * plain(x)))
    close(join(ReZero()), x)  # alpha begins at zero


@pytest.mark.parametrize(
    ("n", "m", "decoder", "alpha", "beta"),
    [
        (6, 0, False, 12**0.25, 48**-0.25),
        (0, 6, True, 12**0.25, 48**-0.25),
        (6, 4, False, 0.81 * (6**4 * 4) ** (1 / 16), 0.87 * (6**4 * 4) ** (-1 / 16)),
        (6, 4, True, 12**0.25, 48**-0.25),
    ],
)
def test_deep_norms_constants(n: int, m: int, decoder: bool, alpha: float, beta: float) -> None:
    """Table 1 of Wang et al. 2022."""
    size = Size(width=16, heads=1, key_heads=1, head_width=16, encoder_layers=n, decoder_layers=m)
    x = torch.randn(1, 2, 16)
    place = DeepNorm().build(LayerNorm(), size, Dropout(0.0), decoder)
    close(place(x, lambda h: h), F.layer_norm((alpha + 1) * x, (16,)))
    assert DeepNorm().gain(size, decoder) == pytest.approx(beta)


def test_deep_norm_begins_lighter() -> None:
    """W_V, W_O and the feed-forward matrices begin beta times as large; W_Q and W_K do not."""
    torch.manual_seed(1)
    plain = TextEncoderDesign(width=64, heads=4, layers=4).build(WORDS).stack.layers[0]
    torch.manual_seed(1)
    deep = TextEncoderDesign(width=64, heads=4, layers=4, residual=DeepNorm()).build(WORDS).stack.layers[0]
    beta = (8 * 4) ** -0.25
    for name in ("self_attention.out.weight", "feed_forward.up.weight", "feed_forward.down.weight"):
        close(deep.get_parameter(name), beta * plain.get_parameter(name))
    (q, k, v), (q_deep, k_deep, v_deep) = (
        layer.get_parameter("self_attention.qkv.weight").split(64) for layer in (plain, deep)
    )
    close(q_deep, q), close(k_deep, k), close(v_deep, beta * v)


def test_feed_forward_thinks_about_each_token_alone() -> None:
    layer, x = Relu(width=24).build(SIZE, bias=True).double(), torch.randn(2, 5, 16).double()
    up, down = layer.get_submodule("up"), layer.get_submodule("down")
    expected = torch.stack([down(up(x[:, t]).clamp(min=0)) for t in range(5)], dim=1)
    close(layer(x), expected, 1e-12)
    assert Relu().build(SIZE, bias=True).get_parameter("up.weight").shape == (64, 16)
    assert Swiglu().build(SIZE, bias=False).get_parameter("down.weight").shape == (16, 64)


def test_three_matrices_are_one() -> None:
    """Section 3.4: both embeddings and the output share a table, which is scaled by the root of the width."""
    model = small()
    assert model.source_embedding.weight is model.target_embedding.weight is model.head.weight
    ids = words(1, 3)
    close(model.source_embedding(ids), model.head.weight[ids] * 4.0, 1e-12)
    apart, output = small(tie_embeddings="none"), small(tie_embeddings="output")
    tables = [apart.source_embedding.weight, apart.target_embedding.weight, apart.head.weight]
    assert len({id(table) for table in tables}) == 3
    assert output.target_embedding.weight is output.head.weight is not output.source_embedding.weight


@pytest.mark.parametrize("tie", ["all", "none"])
@torch.no_grad()
def test_scores_begin_small_and_embeddings_of_size_one(tie: Any) -> None:
    model = (
        EncoderDecoderDesign(width=256, heads=4, encoder_layers=1, decoder_layers=1, tie_embeddings=tie)
        .build(1000)
        .eval()
    )
    ids = torch.randint(4, 1000, (4, 20))
    assert float(model.source_embedding(ids).std()) == pytest.approx(1.0, rel=0.05)
    assert float(model.target_embedding(ids).std()) == pytest.approx(1.0, rel=0.05)
    assert float(model(ids, ids).std()) < 2.5


def test_dropout_keeps_the_mean() -> None:
    x = torch.ones(400, 100)
    dropout = Dropout(0.3)
    y = dropout(x)
    assert float((y == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(y.mean()) == pytest.approx(1.0, abs=0.01)
    assert y.unique().tolist() == pytest.approx([0.0, 1 / 0.7], rel=1e-4)
    assert torch.equal(dropout.eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_locked_dropout_drops_the_same_everywhere_in_a_row() -> None:
    dropout, x = Dropout(0.3, locked=True), torch.rand(40, 9, 100) + 1
    factor = dropout(x) / x
    assert torch.allclose(factor, factor[:, :1].expand_as(factor)), "at every position the same"
    assert not torch.equal(factor[0], factor[1]), "in every row others"
    assert float((factor == 0).float().mean()) == pytest.approx(0.3, abs=0.03)
    assert float(factor.mean()) == pytest.approx(1.0, abs=0.05)
    assert torch.equal(dropout.eval()(x), x)


def test_a_design_locks_all_dropout_of_the_stream() -> None:
    """Attention weights are no features of a position: theirs stays as it is."""
    feed = Relu(width=32, dropout=0.1)
    parts = {"width": 16, "heads": 2, "layers": 2, "dropout": 0.1, "attention_dropout": 0.1, "head_dropout": 0.1}
    for locked in (False, True):
        model = LanguageModelDesign(**parts, feed_forward=feed, locked_dropout=locked).build(30)
        found = [part.locked for part in model.modules() if isinstance(part, Dropout) and part.share]
        assert found == [locked] * (1 + 2 * 3 + 1)  # embeddings; each layer's two sublayers and inner vectors; head


def test_embeddings_may_have_a_dropout_of_their_own() -> None:
    design = LanguageModelDesign(width=16, heads=2, layers=1, dropout=0.1)
    assert cast(Dropout, design.build(30).stack.dropout).share == 0.1
    assert cast(Dropout, replace(design, embedding_dropout=0.0).build(30).stack.dropout).share == 0.0
    assert cast(Dropout, replace(design, embedding_dropout=0.7).build(30).stack.dropout).share == 0.7


# ---------------------------------------------------------------- the whole model


def test_one_pass_gives_the_losses_of_all_prefixes() -> None:
    """Teacher forcing: every position of the target at once, as if each prefix had been fed by itself."""
    model, source, text = small(), words(3, 6), words(3, 5)
    begin, end = torch.full((3, 1), BOS), torch.full((3, 1), EOS)
    inputs, labels = torch.cat([begin, text], dim=1), torch.cat([text, end], dim=1)
    at_once = F.cross_entropy(model(source, inputs).flatten(0, 1), labels.flatten(), reduction="none").view(3, -1)
    for t in range(6):
        alone = F.cross_entropy(model(source, inputs[:, : t + 1])[:, -1], labels[:, t], reduction="none")
        close(at_once[:, t], alone, 1e-12)


def test_the_worked_example_has_its_shapes() -> None:
    """A padded batch of ten; five target tokens through a 5 x 5 triangle; memory for every decoder layer."""
    model = recipes.base().build(100).eval()
    source = torch.tensor([[40, 41, 42, 43, 44, EOS, PAD, PAD, PAD, PAD]])
    target = torch.tensor([[BOS, 50, 51, 52, 53]])
    pos = positions_of(target)
    mask = Mask(causal=True).at(pos, pos).dense()
    assert mask is not None and torch.equal(mask[0, 0], torch.ones(5, 5).tril().bool())
    with torch.no_grad():
        memory = model.encode(source)
        assert [tuple(view.x.shape) for view in memory] == [(1, 10, 512)] * 6
        assert len({id(view) for view in memory}) == 1
        assert model(source, target).shape == (1, 5, 100)


def test_gradients_reach_every_encoder_layer_through_the_memory() -> None:
    model = small()
    model(words(2, 5), words(2, 4)).square().sum().backward()
    for layer in model.encoder.layers:
        assert layer.get_parameter("self_attention.qkv.weight").grad.abs().max() > 0


# ---------------------------------------------------------------- shapes are checked while tests run


def test_a_wrong_shape_is_refused() -> None:
    layer, x, pos = attention(4), torch.randn(2, 5, 16).double(), torch.arange(5)[None]
    layer(x, x, Mask(), pos, pos, State())
    for wrong in (
        lambda: layer(x, x[..., :8], Mask(), pos, pos, State()),
        lambda: layer(x, x, Mask(), pos[:, :4], pos, State()),
        lambda: layer(x.long(), x, Mask(), pos, pos, State()),
        lambda: pick(torch.randn(2, 4, 5, 9), torch.zeros(1, 4, 5, dtype=torch.long)),
        lambda: Mask(keys=torch.ones(2, 5)),
        lambda: small()(words(2, 5).float(), words(2, 5)),
        lambda: small()(words(2, 5), words(3, 5)),
    ):
        with pytest.raises(jaxtyping.TypeCheckError):
            wrong()
