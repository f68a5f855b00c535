"""Losses, schedules, the optimiser and averages against torch and against the papers' formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model import losses
from headway.model.losses import Loss, chunked_cross_entropy, label_smoothed
from headway.storage.weights import Weights
from headway.text.vocabulary import PAD
from headway.training.averaging import Exponential, Last, NoAveraging, Tail
from headway.training.divergence import PATIENCE, WINDOW, Guard
from headway.training.optimiser import Adam, AdamW, Update, moments, restore_moments, set_rate
from headway.training.schedules import Constant, Cosine, InverseRoot, Noam, with_warmup

KINDS = {torch.float64: 1e-12, torch.float32: 2e-5}
ROWS, TIME, WIDTH, VOCABULARY = 3, 7, 16, 40


def example(kind: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hidden vectors, a matrix, a bias, and labels of which some are padding."""
    hidden = torch.randn(ROWS, TIME, WIDTH, dtype=kind, requires_grad=True)
    weight = torch.randn(VOCABULARY, WIDTH, dtype=kind, requires_grad=True)
    bias = torch.randn(VOCABULARY, dtype=kind, requires_grad=True)
    labels = torch.randint(1, VOCABULARY, (ROWS, TIME))
    labels[1, 4:], labels[2, 1:] = PAD, PAD
    return hidden, weight, bias, labels


def by_torch(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Tensor:
    logits = F.linear(hidden, weight, bias).flatten(0, -2)
    return F.cross_entropy(logits, labels.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=smoothing)


def by_logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Loss:
    return label_smoothed(F.linear(hidden, weight, bias), labels, smoothing)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("ours", [by_logits, chunked_cross_entropy])
def test_the_loss_and_its_gradients_are_torchs(
    kind: torch.dtype, smoothing: float, biased: bool, ours: Callable[..., Loss]
) -> None:
    hidden, weight, bias, labels = example(kind)
    parts = [hidden, weight, *([bias] if biased else [])]
    given = (hidden, weight, bias if biased else None, labels)
    loss = ours(*given, smoothing)
    expected = by_torch(*given, smoothing)
    close = {"rtol": KINDS[kind], "atol": KINDS[kind] * 10}
    torch.testing.assert_close(loss.total, expected, **close)
    torch.testing.assert_close(loss.nll, by_torch(*given, 0.0).detach(), **close)
    assert int(loss.count) == int((labels != PAD).sum())
    found, wanted = (torch.autograd.grad(total * 0.37, parts) for total in (loss.total, expected))
    for ours_, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours_, theirs, **close)


@pytest.mark.parametrize("size", [1, 4, 20, 21, 1000])
def test_the_size_of_a_chunk_changes_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, bias, labels = example(torch.float64)
    monkeypatch.setattr(losses, "chunk_size", lambda *_: size)
    loss = chunked_cross_entropy(hidden, weight, bias, labels, 0.1)
    expected = by_torch(hidden, weight, bias, labels, 0.1)
    torch.testing.assert_close(loss.total, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(
        torch.autograd.grad(loss.total, [hidden, weight, bias]),
        torch.autograd.grad(expected, [hidden, weight, bias]),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


def test_zeros_that_align_a_vocabulary_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, bias, labels = example(torch.float64)
    pairs = []
    for multiple in (1, 16):  # forty pieces are none
        monkeypatch.setattr(losses, "alignment", lambda _, multiple=multiple: multiple)
        loss = chunked_cross_entropy(torch.cat([hidden, 2 * hidden]), weight, bias, labels, 0.1, r_drop=1.0)
        pairs.append((loss.total, loss.nll, *torch.autograd.grad(loss.total, [hidden, weight, bias])))
    for plain, wide in zip(*pairs, strict=True):
        torch.testing.assert_close(plain, wide, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1, 8, 1000])
def test_r_drop_is_the_mean_loss_of_two_passes_and_their_divergence(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-Drop's formula, halved as the loss is a mean over the two passes, by torch."""
    first, weight, bias, labels = example(torch.float64)
    second = torch.randn_like(first, requires_grad=True)
    parts = [first, second, weight, bias]
    monkeypatch.setattr(losses, "chunk_size", lambda *_: size)
    loss = chunked_cross_entropy(torch.cat([first, second]), weight, bias, labels, 0.1, r_drop=3.0)
    log_p, log_q = (F.linear(x, weight, bias).log_softmax(-1)[labels != PAD] for x in (first, second))
    apart = sum(F.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((log_p, log_q), (log_q, log_p)))
    expected = sum(by_torch(x, weight, bias, labels, 0.1) for x in (first, second)) / 2 + 3.0 * apart / 4
    torch.testing.assert_close(loss.total, expected, rtol=1e-12, atol=1e-12)
    assert int(loss.count) == int((labels != PAD).sum())
    pairs = [torch.autograd.grad(total, parts) for total in (loss.total, expected)]
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


def test_in_half_precision_the_loss_stays_near_and_gradients_keep_their_kind() -> None:
    hidden, weight, bias, labels = example(torch.float32)
    expected = by_torch(hidden, weight, bias, labels, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        loss = chunked_cross_entropy(hidden, weight, bias, labels, 0.1)
    assert loss.total.dtype == torch.float32
    torch.testing.assert_close(loss.total, expected, rtol=1e-2, atol=0.0)
    pairs = [torch.autograd.grad(total, [hidden, weight, bias]) for total in (loss.total, expected)]
    for ours, theirs in zip(*pairs, strict=True):
        assert ours.dtype == torch.float32
        assert float((ours - theirs).norm() / theirs.norm()) < 2e-2


def test_sums_add_up_over_any_split() -> None:
    hidden, weight, bias, labels = example(torch.float64)
    whole = chunked_cross_entropy(hidden, weight, bias, labels, 0.1)
    parts = [chunked_cross_entropy(hidden[i : i + 1], weight, bias, labels[i : i + 1], 0.1) for i in range(ROWS)]
    torch.testing.assert_close(sum(part.total for part in parts), whole.total, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(sum(part.nll for part in parts), whole.nll, rtol=1e-12, atol=0.0)
    assert sum(int(part.count) for part in parts) == int(whole.count)


def test_padding_alone_costs_nothing() -> None:
    hidden, weight, bias, labels = example(torch.float64)
    loss = chunked_cross_entropy(hidden, weight, bias, torch.full_like(labels, PAD), 0.1)
    assert float(loss.total.detach()) == 0.0 and int(loss.count) == 0
    assert not torch.autograd.grad(loss.total, hidden)[0].any()


# ---------------------------------------------------------------- schedules


@pytest.mark.parametrize("step", [1, 2, 399, 400, 401, 4000, 100_000])
def test_noam_is_equation_3_of_the_paper(step: int) -> None:
    expected = 512**-0.5 * min(step**-0.5, step * 400**-1.5)
    assert Noam(warmup=400).factor(step, 10**6, 512) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("step", [1, 50, 100, 101, 400, 10_000])
def test_the_inverse_root_rises_and_falls_as_fairseqs(step: int) -> None:
    """lr = peak * step / warmup, then peak * sqrt(warmup) / sqrt(step)."""
    expected = step / 100 if step <= 100 else math.sqrt(100 / step)
    assert InverseRoot(warmup=100).factor(step, 10**6, 512) == pytest.approx(expected, rel=1e-12)


def test_a_short_run_rises_for_a_part_of_it_only() -> None:
    part = InverseRoot(warmup=100, max_warmup_share=0.25)
    assert [with_warmup(part, total) for total in (1, 40, 400, 10**6)] == [
        InverseRoot(warmup=w) for w in (1, 10, 100, 100)
    ]
    assert with_warmup(with_warmup(part, 40), 10**6) == InverseRoot(
        warmup=10
    )  # a run that goes on longer keeps its rise
    for other in (InverseRoot(warmup=100), Noam(warmup=100), Cosine(warmup=100), Constant(warmup=100)):
        assert with_warmup(other, 50) == other  # what was given stands
    assert InverseRoot(warmup=100).factor(50, 50, 8) == 0.5
    with pytest.raises(ValueError, match="max_warmup_share is 0.0; it must be more than 0 and at most 1"):
        InverseRoot(max_warmup_share=0.0)


def test_the_cosine_is_torchs_and_ends_at_its_floor() -> None:
    ours = Cosine(warmup=10, floor=0.05)
    weight = nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([weight], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=90, eta_min=0.05)
    assert [ours.factor(step, 100, 8) for step in range(1, 11)] == pytest.approx([i / 10 for i in range(1, 11)])
    for step in range(11, 101):
        optimiser.step()
        theirs.step()
        assert ours.factor(step, 100, 8) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
    assert ours.factor(100, 100, 8) == pytest.approx(0.05) == ours.factor(150, 100, 8)


def test_constant_is_constant_after_its_rise() -> None:
    assert [Constant(warmup=4).factor(step, 9, 8) for step in (1, 2, 4, 5, 9)] == [0.25, 0.5, 1.0, 1.0, 1.0]
    assert all(kind(warmup=0).factor(1, 9, 4) > 0 for kind in (Noam, InverseRoot, Cosine, Constant))


# ---------------------------------------------------------------- optimiser


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 3))


def gradients(of: nn.Module, seed: int, size: float) -> None:
    dice = torch.Generator().manual_seed(seed)
    for parameter in of.parameters():
        parameter.grad = size * torch.randn(parameter.shape, generator=dice)


THEIRS: dict[Any, Callable[[nn.Module], torch.optim.Optimizer]] = {
    Adam(): lambda of: torch.optim.Adam(of.parameters(), lr=0.1, betas=(0.9, 0.98), eps=1e-9, foreach=False),
    AdamW(weight_decay=0.1): lambda of: torch.optim.AdamW(
        [
            {"params": [p for p in of.parameters() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in of.parameters() if p.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=0.1, betas=(0.9, 0.98), eps=1e-9, foreach=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", THEIRS, ids=["adam", "adamw"])
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_an_update_is_torchs_optimiser_and_torchs_clipping(kind: Any, clip: float) -> None:
    ours, theirs = model(), model()
    optimiser = THEIRS[kind](theirs)
    update = Update(kind.build(ours, 0.1), clip, half=False)
    for step in range(1, 9):
        size = 10.0 if step % 2 else 0.01  # clipped and not clipped in turn
        for one in (ours, theirs):
            gradients(one, step, size)
        for group in optimiser.param_groups:
            group["lr"] = 0.1 / step
        set_rate(update.optimiser, 0.1 / step)
        expected = torch.nn.utils.clip_grad_norm_(theirs.parameters(), clip or math.inf)
        optimiser.step()
        norm, finite = update()
        assert bool(finite)
        torch.testing.assert_close(norm, expected)
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_an_update_that_is_not_finite_changes_nothing_at_all(poison: float) -> None:
    ours, twin = model(), model()
    update, plain = (Update(Adam().build(one, 0.1), 1.0, half=False) for one in (ours, twin))
    for step in range(6):
        gradients(ours, step, 1.0)
        if step == 3:
            next(iter(ours.parameters())).grad.view(-1)[0] = poison  # pyright: ignore
            assert not bool(update()[1])
            continue
        gradients(twin, step, 1.0)
        assert bool(update()[1]) and bool(plain()[1])
    for mine, other in zip(ours.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine, other)
    held, expected = moments(ours, update.optimiser), moments(twin, plain.optimiser)
    assert held.keys() == expected.keys() and all(torch.equal(held[name], expected[name]) for name in held)


def test_half_precision_lowers_its_scale_after_an_overflow() -> None:
    ours = model()
    update = Update(Adam().build(ours, 0.1), 1.0, half=True)
    before = float(update.scale)
    gradients(ours, 1, math.inf)
    update()
    assert float(update.scale) == before / 2
    gradients(ours, 1, 1.0)
    norm, _ = update()
    expected = torch.nn.utils.get_total_norm(p.grad for p in model_with_gradients(1)) / (before / 2)
    torch.testing.assert_close(norm, expected)


def model_with_gradients(seed: int) -> list[nn.Parameter]:
    one = model()
    gradients(one, seed, 1.0)
    return list(one.parameters())


def test_moments_come_back_in_place_or_into_a_new_optimiser() -> None:
    ours, other = model(), model()
    update, empty = Update(Adam().build(ours, 0.1), 1.0, False), Adam().build(other, 0.1)
    for step in range(3):
        gradients(ours, step, 1.0)
        update()
    saved = {name: tensor.clone() for name, tensor in moments(ours, update.optimiser).items()}
    addresses = {name: tensor.data_ptr() for name, tensor in moments(ours, update.optimiser).items()}
    gradients(ours, 9, 1.0)
    update()
    restore_moments(ours, update.optimiser, saved)
    restore_moments(other, empty, saved)
    for found in (moments(ours, update.optimiser), moments(other, empty)):
        assert found.keys() == saved.keys()
        assert all(torch.equal(found[name], saved[name]) for name in saved)
    assert addresses == {name: tensor.data_ptr() for name, tensor in moments(ours, update.optimiser).items()}
    restore_moments(ours, update.optimiser, {})
    assert not any(tensor.any() for tensor in moments(ours, update.optimiser).values())


# ---------------------------------------------------------------- averages


def tail(share: float, every: int) -> Tail:
    return Tail(share=share, every=every)


def fading(decay: float) -> Exponential:
    return Exponential(decay=decay)


def last(count: int, every: int) -> Last:
    return Last(count=count, every=every)


def walk(steps: int) -> list[Weights]:
    dice = torch.Generator().manual_seed(3)
    return [{"w": torch.randn(4, 3, generator=dice), "n": torch.tensor(step)} for step in range(1, steps + 1)]


def averaged(kind: Any, path: list[Weights], resume_at: int | None = None) -> Tensor:
    average = kind.build()
    for step, weights in enumerate(path, 1):
        average.update(step, len(path), lambda weights=weights: weights)
        if step == resume_at:
            state = {name: tensor.clone() for name, tensor in average.state().items()}
            average = kind.build()
            average.restore(state, weights)
    result = average.result(path[-1])
    assert torch.equal(result["n"], path[-1]["n"])  # whole numbers are not averaged
    return result["w"]


def direct(kind: Any, path: list[Weights]) -> Tensor:
    """The definitions, written out."""
    weights, total = [one["w"] for one in path], len(path)
    if isinstance(kind, NoAveraging):
        return weights[-1]
    if isinstance(kind, Last):
        return torch.stack(weights[kind.every - 1 :: kind.every][-kind.count :]).mean(dim=0)
    if isinstance(kind, Tail):
        chosen = [w for s, w in enumerate(weights, 1) if s >= (1 - kind.share) * total and s % kind.every == 0]
        return torch.stack(chosen).mean(dim=0)
    mean = weights[0]
    for count, now in enumerate(weights[1:], 2):
        keep = min(kind.decay, count / (count + 9))
        mean = keep * mean + (1 - keep) * now
    return mean


@pytest.mark.parametrize(
    "kind", [NoAveraging(), tail(0.5, 1), tail(0.3, 4), fading(0.9), fading(0.999), last(3, 5), last(9, 10)]
)
@pytest.mark.parametrize("resume_at", [None, 1, 17, 30])
def test_averages_are_the_means_they_say(kind: Any, resume_at: int | None) -> None:
    path = walk(40)
    torch.testing.assert_close(averaged(kind, path, resume_at), direct(kind, path))


def test_a_longer_run_forgets_the_tail_of_the_shorter_one() -> None:
    average, path = tail(0.25, 1).build(), walk(40)
    for step, weights in enumerate(path[:20], 1):
        average.update(step, 20, lambda weights=weights: weights)
    for step, weights in enumerate(path[20:], 21):
        average.update(step, 40, lambda weights=weights: weights)
        if step == 21:
            assert torch.equal(average.result(weights)["w"], weights["w"])
    torch.testing.assert_close(average.result(path[-1])["w"], direct(tail(0.25, 1), path))


# ---------------------------------------------------------------- guard


def test_single_bad_steps_are_forgiven_and_ten_in_a_row_are_not() -> None:
    guard = Guard()
    for _ in range(3):
        assert [guard.see(math.nan, False) for _ in range(PATIENCE - 1)] == [None] * (PATIENCE - 1)
        assert guard.see(2.0, True) is None
    assert [guard.see(math.inf, True) for _ in range(PATIENCE)][-1] == "10 steps in a row were not finite"


def test_a_loss_that_leaves_its_range_is_noticed_and_noise_is_not() -> None:
    guard, dice = Guard(), torch.Generator().manual_seed(0)
    noise = (2.0 + 0.3 * torch.randn(3 * WINDOW, generator=dice)).tolist()
    assert all(guard.see(loss, True) is None for loss in noise)
    assert guard.see(12.0, True) is None  # one batch alone
    reasons = [guard.see(8.0, True) for _ in range(PATIENCE)]
    assert any(reason and reason.startswith("the loss rose to ") for reason in reasons)


def test_a_loss_that_creeps_back_up_is_noticed() -> None:
    """Each step is within the range of those before it; all together they lose half of what was learned."""
    guard, dice = Guard(), torch.Generator().manual_seed(0)

    def seen(*ends: float, steps: int) -> list[str | None]:
        path = torch.linspace(*ends, steps) + 0.1 * torch.randn(steps, generator=dice)
        return [guard.see(loss, True) for loss in path.tolist()]

    assert not any(seen(9.0, 5.0, steps=4 * WINDOW))
    assert not any(seen(5.0, 6.0, steps=4 * WINDOW)), "a quarter back may be the text"
    reasons = seen(6.0, 7.5, steps=8 * WINDOW)
    assert next(reason for reason in reasons if reason).endswith("half of what was learned is lost")


def test_an_older_run_that_is_taken_up_is_not_judged_by_its_last_steps() -> None:
    """Of what it had learned before nothing is known."""
    guard, dice = Guard([2.0] * WINDOW), torch.Generator().manual_seed(0)
    path = torch.linspace(2.0, 2.3, 6 * WINDOW) + 0.02 * torch.randn(6 * WINDOW, generator=dice)
    assert not any(guard.see(loss, True) for loss in path.tolist())


def test_a_run_that_learns_nothing_more_may_wander() -> None:
    guard, dice = Guard(), torch.Generator().manual_seed(0)
    assert not any(guard.see(loss, True) for loss in (2 + 0.3 * torch.randn(20 * WINDOW, generator=dice)).tolist())
