"""Muon against torch's, against the singular value decomposition, and its promises about steps that fail."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway import config
from headway.model.design import EncoderDecoderDesign
from headway.training.muon import matrices, orthogonal
from headway.training.optimiser import Muon, Update, moments, restore_moments, set_rate
from headway.training.settings import Training

SMALL: dict[str, Any] = {
    "width": 16, "heads": 4, "key_heads": 2, "encoder_layers": 1, "decoder_layers": 2,
    "feed_forward": {"kind": "swiglu", "width": 24}, "positions": {"kind": "rotary"},
}  # fmt: skip


def model() -> nn.Module:
    torch.manual_seed(1)
    return config.from_dict(EncoderDecoderDesign, SMALL).build(50)


def gradients(of: nn.Module, seed: int) -> None:
    dice = torch.Generator().manual_seed(seed)
    for weight in of.parameters():
        weight.grad = torch.randn(weight.shape, generator=dice)


def parts(of: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Weights and gradients of what is turned by itself."""
    pairs = [zip(w.split(rows), w.grad.split(rows), strict=True) for w, rows in matrices(of) if w.grad is not None]
    return [pair for some in pairs for pair in some]


@pytest.mark.parametrize("shape", [(8, 8), (8, 24), (24, 8)])
def test_a_turned_matrix_has_the_directions_of_the_old_one_and_lengths_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    u, s, v = torch.linalg.svd(torch.randn(3, *shape), full_matrices=False)
    s = s.clamp_min(0.1 * s.amax())  # five rounds reach no shorter ones
    inside = u.mT @ orthogonal(u * s[:, None] @ v) @ v.mT
    lengths = inside.diagonal(dim1=-2, dim2=-1)
    assert float(lengths.amin()) > 0.6 and float(lengths.amax()) < 1.3
    torch.testing.assert_close(inside, torch.diag_embed(lengths), rtol=0, atol=1e-4)


@pytest.mark.parametrize("power", range(0, 46, 3))
def test_what_is_too_short_fades(power: int) -> None:
    """Squares of small numbers are no numbers any more: what is divided by them would be without bound."""
    torch.manual_seed(1)
    turned = orthogonal(torch.randn(2, 16, 16) * 10.0**-power)
    assert bool(turned.isfinite().all())
    length = float(turned.norm(dim=(-2, -1)).min())
    assert power > 6 or length > 3
    assert power < 12 or length < 0.1


def test_of_a_model_the_matrices_of_its_layers_are_turned_each_of_the_joined_ones_by_itself() -> None:
    ours = model()
    found = {name: rows for name, w in ours.named_parameters() for other, rows in matrices(ours) if other is w}
    assert found["decoder.layers.0.self_attention.qkv.weight"] == (16, 8, 8)
    assert found["encoder.layers.0.feed_forward.up.weight"] == (24, 24)
    assert found["decoder.layers.1.cross_attention.out.weight"] == (16,)
    assert all(".layers." in name and name.endswith("weight") for name in found)
    assert len(found) == 4 + 2 * 6


class Torchs:
    """Muon over copies of the parts, AdamW over the rest, as torch has them."""

    def __init__(self, of: nn.Module) -> None:
        gradients(of, 0)
        self.of, self.copies = of, [nn.Parameter(weight.detach().clone()) for weight, _ in parts(of)]
        inside = {weight for weight, _ in matrices(of)}
        self.others = {name: weight for name, weight in of.named_parameters() if weight not in inside}
        wide, narrow = ([w for w in self.others.values() if (w.dim() > 1) == many] for many in (True, False))
        groups = [{"params": wide, "weight_decay": 0.1}, {"params": narrow, "weight_decay": 0.0}]
        self.optimisers = (
            torch.optim.Muon(self.copies, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-9),
        )

    def step(self, seed: int, rate: float) -> None:
        gradients(self.of, seed)
        for copy, (_, gradient) in zip(self.copies, parts(self.of), strict=True):
            copy.grad = gradient.clone()
        for optimiser in self.optimisers:
            set_rate(optimiser, rate)
            optimiser.step()


def test_an_update_is_torchs_muon_and_torchs_adamw() -> None:
    """torch's turns in bfloat16, hence the tolerance."""
    ours, theirs = model(), Torchs(model())
    update = Update(Muon(weight_decay=0.1).build(ours, 0.1), 0.0, half=False)
    for step in range(1, 5):
        theirs.step(step, 0.01 / step)
        gradients(ours, step)
        set_rate(update.optimiser, 0.01 / step)
        assert bool(update()[1])
    for copy, (weight, _) in zip(theirs.copies, parts(ours), strict=True):
        torch.testing.assert_close(weight, copy, rtol=0, atol=4e-4)
    named = dict(ours.named_parameters())
    for name, weight in theirs.others.items():
        torch.testing.assert_close(named[name], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_an_update_that_is_not_finite_changes_nothing_at_all(poison: float) -> None:
    ours, twin = model(), model()
    update, plain = (Update(Muon().build(one, 0.1), 1.0, half=False) for one in (ours, twin))
    for step in range(5):
        gradients(ours, step)
        if step == 3:
            next(matrices(ours))[0].grad.view(-1)[0] = poison  # pyright: ignore[reportOptionalMemberAccess]
            assert not bool(update()[1])
            continue
        gradients(twin, step)
        assert bool(update()[1]) and bool(plain()[1])
    same(ours, twin)
    held, expected = moments(ours, update.optimiser), moments(twin, plain.optimiser)
    assert held.keys() == expected.keys() and all(torch.equal(held[name], expected[name]) for name in held)


def test_what_it_remembers_is_saved_and_comes_back() -> None:
    ours, other = model(), model()
    update = Update(Muon().build(ours, 0.1), 1.0, half=False)
    for step in range(3):
        gradients(ours, step)
        update()
    other.load_state_dict(ours.state_dict())
    again = Update(Muon().build(other, 0.1), 1.0, half=False)
    restore_moments(other, again.optimiser, {name: t.clone() for name, t in moments(ours, update.optimiser).items()})
    for step in range(3, 5):
        for one, each in ((ours, update), (other, again)):
            gradients(one, step)
            each()
    same(ours, other)


def same(one: nn.Module, other: nn.Module) -> None:
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    "given", [{"momentum": 1.0}, {"momentum": -0.1}, {"betas": (0.9, 1.5)}, {"weight_decay": -1.0}]
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be at least 0 and less than 1|weight_decay is -1.0"):
        Muon(**given)


def test_it_needs_whole_matrices() -> None:
    with pytest.raises(ValueError, match="muon needs each of them whole"):
        Training(fsdp=True, optimiser=Muon())
