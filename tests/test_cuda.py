"""What only a GPU can show: the hand-written kernels equal their references, recorded steps equal plain ones."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from headway.engines.cuda import captured_beam, fused_decoder
from headway.engines.cuda.captured_beam import CapturedBeam, MakeWriter, leanest_writer, model_writer
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign
from headway.model.feed_forward import Relu, Swiglu
from headway.model.models import LanguageModel
from headway.model.norms import RMSNorm
from headway.model.positions import Learned, TransformerXL
from headway.model.residuals import Pre
from headway.search import Beam, Limits
from headway.text.vocabulary import EOS, PAD

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

SHAPES = [  # batch, heads, queries, keys, head width, causal, padded
    (5, 8, 32, 32, 64, False, True),
    (5, 8, 32, 32, 64, True, False),
    (3, 4, 17, 40, 64, False, True),
    (3, 4, 64, 64, 64, True, False),
    (7, 4, 21, 9, 32, False, True),
    (4, 8, 1, 40, 64, False, True),
    (4, 8, 5, 100, 64, False, True),
]


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.detach().double() - wanted.detach()).norm() / wanted.detach().norm())


@pytest.mark.parametrize(("b", "h", "t", "s", "e", "causal", "padded"), SHAPES)
def test_short_attention_equals_softmax_and_so_do_its_gradients(
    b: int, h: int, t: int, s: int, e: int, causal: bool, padded: bool
) -> None:
    from headway.model.kernels.short_sequences import short_attention

    torch.manual_seed(0)
    sizes = ((b, t, h, e), (b, s, h, e), (b, s, h, e))
    ours = [torch.randn(n, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_() for n in sizes]
    exact = [x.detach().double().requires_grad_() for x in ours]
    lengths = torch.randint(1, s + 1, (b, 1), device="cuda")
    keys = torch.arange(s, device="cuda")[None] < lengths if padded else None
    found = short_attention(*ours, keys, None, causal, e**-0.5)
    seen = torch.ones(b, 1, t, s, dtype=torch.bool, device="cuda")
    seen = seen.tril() if causal else seen
    seen = seen & keys[:, None, None] if keys is not None else seen
    scores = exact[0] @ exact[1].transpose(-1, -2) * e**-0.5
    wanted = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1) @ exact[2]
    slope = torch.randn_like(found)
    found.backward(slope)
    wanted.backward(slope.double())
    assert error(found, wanted) < 1e-2
    for mine, theirs in zip(ours, exact, strict=True):
        assert mine.grad is not None and theirs.grad is not None
        assert error(mine.grad, theirs.grad) < 1e-2


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("remembered", [0, 160])
@pytest.mark.parametrize("width", [400, 512])  # heads of 40 and of 64
def test_relative_positions_and_memory_are_the_same_on_the_card(rows: int, remembered: int, width: int) -> None:
    """Vectors and gradients of Transformer-XL, in single and in half precision, against the CPU in double."""
    torch.manual_seed(0)
    design = LanguageModelDesign(
        width=width, heads=10 if width == 400 else 8, layers=2, feed_forward=Relu(width=64), residual=Pre(),
        positions=TransformerXL(), memory=160,
    )  # fmt: skip
    exact = design.build(300).double().eval()
    tokens, memory = torch.randint(4, 300, (rows, 160)), torch.randn(2, rows, remembered, width, dtype=torch.float64)
    weights = torch.randn(rows, 160, width, dtype=torch.float64)
    known = torch.full((rows,), remembered // 2) if remembered and rows > 1 else None

    def run(model: LanguageModel, half: bool) -> list[torch.Tensor]:
        like = model.head.weight
        model.zero_grad()
        with torch.autocast(like.device.type, torch.bfloat16, enabled=half):
            held = [each.to(like) for each in memory] if remembered else []
            hidden, _ = model.hidden(tokens.to(like.device), held, None if known is None else known.to(like.device))
            (hidden * weights.to(like)).sum().backward()
        slopes = [each.grad for each in model.parameters() if each.grad is not None]
        return [each.detach().double().cpu() for each in (hidden, *slopes)]

    wanted = run(exact, half=False)
    ours = copy.deepcopy(exact).float().cuda()
    for half, bound in ((False, 1e-3), (True, 0.2)):  # for slopes; a tenth of it for the vectors
        found = run(ours, half)
        apart = [float((a - b).norm() / b.norm().clamp_min(1e-9)) for a, b in zip(found, wanted, strict=True)]
        assert apart[0] < bound / 10 and max(apart) < bound, f"half: {half}, vectors and slopes {apart}"


@pytest.mark.parametrize("remembered", [0, 160])
def test_slopes_with_dropout_in_attention_are_those_of_the_loss(remembered: int) -> None:
    """By differences along a random way for every weight of the attention; the same seed drops the same."""
    torch.manual_seed(0)
    design = LanguageModelDesign(
        width=400, heads=10, layers=1, feed_forward=Relu(width=64), residual=Pre(), positions=TransformerXL(),
        memory=160, dropout=0.0, attention_dropout=0.2,
    )  # fmt: skip
    model = design.build(300).cuda().train()
    like = model.head.weight
    tokens, memory = torch.randint(4, 300, (4, 160)).to(like.device), torch.randn(4, remembered, 400).to(like)
    weights = torch.randn(4, 160, 400).to(like)

    def loss() -> torch.Tensor:
        torch.manual_seed(1)
        return (model.hidden(tokens, [memory] if remembered else [])[0] * weights).double().sum()

    loss().backward()
    for name, parameter in model.named_parameters():
        if "self_attention" not in name:
            continue
        assert parameter.grad is not None, name
        slope, way = parameter.grad.clone(), torch.randn_like(parameter)
        far = 0.03 / float(slope.norm())  # the loss changes by hundredths: more than rounding, less than it bends
        with torch.no_grad():
            parameter.add_(far * way)
            ahead = loss()
            parameter.sub_(2 * far * way)
            behind = loss()
            parameter.add_(far * way)
        seen = float((ahead - behind) / (2 * far))
        assert seen == pytest.approx(float((slope * way).sum()), rel=0.1, abs=0.02 * float(slope.norm())), name


@pytest.mark.parametrize("pieces", [32_000, 9752, 70])
def test_one_pass_over_logits(pieces: int) -> None:
    from headway.engines.cuda.logsumexp_topk import scan

    logits = torch.randn(7, pieces, device="cuda", dtype=torch.bfloat16)
    sums, maxima = scan(logits, 3, 64)
    allowed = logits.float()
    torch.testing.assert_close(sums, allowed.logsumexp(dim=-1), atol=1e-4, rtol=1e-5)
    allowed[:, :3] = -torch.inf
    blocks = torch.nn.functional.pad(allowed, (0, -pieces % 64), value=-torch.inf).unflatten(1, (-1, 64)).amax(dim=-1)
    assert torch.equal(maxima, blocks)


DESIGN = EncoderDecoderDesign(width=64, heads=4, encoder_layers=2, decoder_layers=2, feed_forward=Relu(width=128))
OTHER = replace(DESIGN, residual=Pre(), norm=RMSNorm(), feed_forward=Swiglu(), key_heads=2, positions=Learned())


@pytest.mark.parametrize("design", [DESIGN, replace(DESIGN, residual=Pre()), OTHER])
@pytest.mark.parametrize("size", [1, 4, 5, 8])
@pytest.mark.parametrize("writer", [leanest_writer, model_writer])
def test_recorded_beam_equals_plain_beam(design: EncoderDecoderDesign, size: int, writer: MakeWriter) -> None:
    torch.manual_seed(0)
    model = design.build(200).cuda().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # wide enough apart that rounding changes no choice
            parameter.add_(0.2 * torch.randn_like(parameter))
    search = Beam(size=size, n_best=min(3, size), limits=Limits(ratio=1.0, extra=8))
    recorded = CapturedBeam(model, search, writer=writer)
    assert fused_decoder.unsupported(model, search.size) is None
    for rows, length in ((5, 12), (8, 12), (1, 40), (3, 70)):
        source = torch.randint(4, 200, (rows, length), device="cuda")
        source[:, -1] = EOS
        source[0, length // 2 :] = PAD
        source[0, length // 2] = EOS
        for plain, ours in zip(search(model, source), recorded(source), strict=True):
            assert [one.ids for one in plain] == [one.ids for one in ours]
            assert [one.score for one in plain] == pytest.approx([one.score for one in ours], rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("size", [1, 4])
def test_a_lane_goes_to_the_next_sentence_that_waits(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Twenty sentences of different length in four lanes: each ends as if it had been alone."""
    torch.manual_seed(0)
    model = DESIGN.build(200).cuda().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    monkeypatch.setattr(captured_beam, "MOST_ROWS", 4 * size)
    search = Beam(size=size, limits=Limits(ratio=1.0, extra=8))
    recorded, source = CapturedBeam(model, search), torch.randint(4, 200, (20, 30))
    for row in range(20):
        source[row, 30 - row :], source[row, 29 - row] = PAD, EOS
    assert captured_beam.room_for(source, search.limits).extent(search).lanes == 4
    plain = search(model, source.cuda())
    for _ in range(2):  # the second time everything has been used before
        for one, ours in zip(plain, recorded(source), strict=True):
            assert one[0].ids == ours[0].ids and one[0].score == pytest.approx(ours[0].score, rel=1e-4, abs=1e-3)
