"""The optimiser, and one update: clip, check, step. Nothing here waits for the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headway.storage.weights import Weights, fill, whole
from headway.training.muon import Orthogonal, matrices


@dataclass(frozen=True)
class Adam:
    """Adam with the paper's constants (section 5.3)."""

    kind: Literal["adam"] = "adam"
    betas: tuple[float, float] = (
        0.9,
        0.98,
    )  # decay rates of the means of gradients and of their squares, from 0 to below 1
    epsilon: float = 1e-9  # added to the denominator

    def __post_init__(self) -> None:
        check(self.betas)

    def build(self, model: nn.Module, rate: float) -> torch.optim.Optimizer:
        return _build(torch.optim.Adam, [{"params": list(parameters(model))}], rate, self.betas, self.epsilon)


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay on matrices (Loshchilov and Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    betas: tuple[float, float] = (
        0.9,
        0.98,
    )  # decay rates of the means of gradients and of their squares, from 0 to below 1
    epsilon: float = 1e-9  # added to the denominator
    weight_decay: float = 0.01  # decoupled weight decay, for matrices only

    def __post_init__(self) -> None:
        check(self.betas, self.weight_decay)

    def build(self, model: nn.Module, rate: float) -> torch.optim.Optimizer:
        return self.over(parameters(model), rate)

    def over(self, weights: list[nn.Parameter], rate: float) -> torch.optim.Optimizer:
        tables = [p for p in weights if p.dim() > 1]
        vectors = [p for p in weights if p.dim() <= 1]
        groups = [{"params": tables, "weight_decay": self.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        return _build(torch.optim.AdamW, [g for g in groups if g["params"]], rate, self.betas, self.epsilon)


@dataclass(frozen=True)
class Muon:
    """Muon: orthogonalised updates for matrices inside layers, AdamW for the rest (Jordan 2024, Liu et al. 2025)."""

    kind: Literal["muon"] = "muon"
    momentum: float = 0.95  # momentum of the gradients of matrices inside layers, from 0 to below 1
    betas: tuple[float, float] = (0.9, 0.98)  # decay rates of AdamW, for all other weights
    epsilon: float = 1e-9  # of AdamW, added to the denominator
    weight_decay: float = 0.1  # decoupled weight decay, for matrices and embeddings

    def __post_init__(self) -> None:
        check((self.momentum, *self.betas), self.weight_decay)

    def build(self, model: nn.Module, rate: float) -> torch.optim.Optimizer:
        inside = {weight: rows for weight, rows in matrices(model) if weight.requires_grad}
        others = [weight for weight in parameters(model) if weight not in inside]
        rest = AdamW(betas=self.betas, epsilon=self.epsilon, weight_decay=self.weight_decay).over(others, rate)
        return Orthogonal(inside, rest, rest.param_groups[0]["lr"], self.momentum, self.weight_decay)


Optimiser = Adam | AdamW | Muon


def check(rates: tuple[float, ...], weight_decay: float = 0.0) -> None:
    """betas and momentum must be in [0, 1), weight_decay at least 0."""
    for share in rates:
        if not 0 <= share < 1:
            raise ValueError(f"betas and momentum must be at least 0 and less than 1, not {share}")
    if weight_decay < 0:
        raise ValueError(f"weight_decay is {weight_decay}; it must be at least 0")


def parameters(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def _build(kind: Any, groups: list[dict[str, Any]], rate: float, betas: tuple[float, float], epsilon: float) -> Any:
    device = groups[0]["params"][0].device.type
    on_cuda = device == "cuda"
    # On CUDA the rate is a tensor, so that a captured graph reads it anew at every replay.
    value = torch.tensor(rate, device=device) if on_cuda else rate
    return kind(groups, lr=value, betas=betas, eps=epsilon, fused=device in ("cuda", "cpu"), capturable=on_cuda)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


class Update:
    """One update from summed gradients. A step that is not finite changes nothing, decided on the device.

    `scale` is what the loss was multiplied by; it moves only in half precision (fp16).
    """

    def __init__(self, optimiser: torch.optim.Optimizer, clip: float, half: bool) -> None:
        self.optimiser, self.clip, self.half = optimiser, clip, half
        self.weights = [p for group in optimiser.param_groups for p in group["params"]]
        device = self.weights[0].device
        self.scale = torch.tensor(2.0**14 if half else 1.0, device=device)
        self.good = torch.zeros((), device=device)  # finite updates in a row

    def __call__(self) -> tuple[Tensor, Tensor]:
        """The gradient's length, and whether the update was made."""
        gradients = [p.grad for p in self.weights if p.grad is not None]
        norm = whole(torch.nn.utils.get_total_norm(gradients)) / self.scale
        finite = torch.isfinite(norm)
        factor = (self.clip / norm).clamp_max(1.0) if self.clip else torch.ones_like(norm)
        torch._foreach_mul_(gradients, (factor / self.scale).to(gradients[0].dtype))
        self.optimiser.found_inf = (~finite).float()  # pyright: ignore[reportAttributeAccessIssue]
        self.optimiser.step()
        self.follow(finite)
        return norm, finite

    def follow(self, finite: Tensor) -> None:
        """Half precision: halve the scale after an overflow, double it after 2,000 good steps."""
        self.good.mul_(finite).add_(finite)
        if self.half:
            grown = torch.where(self.good >= 2000, 2.0, 1.0)
            self.scale.mul_(torch.where(finite, grown, 0.5)).clamp_(1.0, 2.0**24)
            self.good.mul_(self.good < 2000)

    def state(self) -> Weights:
        return {"scale": self.scale, "good": self.good}

    def restore(self, state: Weights) -> None:
        self.scale.copy_(state["scale"])
        self.good.copy_(state["good"])


def moments(model: nn.Module, optimiser: torch.optim.Optimizer) -> Weights:
    """The optimiser's tensors by the names of their parameters: safetensors can hold them, no pickle needed."""
    names: dict[Tensor, str] = {p: name for name, p in model.named_parameters()}
    return {f"{names[p]}|{key}": value for p, held in optimiser.state.items() for key, value in held.items()}


def restore_moments(model: nn.Module, optimiser: torch.optim.Optimizer, saved: Weights) -> None:
    """What was not saved begins at zero, as before the first step. In place: captured graphs know the addresses."""
    forget_moments(optimiser)
    by_name: dict[str, Any] = dict(model.named_parameters())
    for full, value in saved.items():
        name, key = full.rsplit("|", 1)
        parameter = by_name[name]
        held = optimiser.state[parameter]
        if key not in held:
            held[key] = torch.empty_like(parameter, requires_grad=False) if value.dim() else counter(parameter)
        fill(held[key], value)


def counter(parameter: Tensor) -> Tensor:
    """Adam counts steps on the CPU unless its step is captured."""
    return torch.zeros((), device=parameter.device if parameter.device.type == "cuda" else "cpu")


def forget_moments(optimiser: torch.optim.Optimizer) -> None:
    for held in optimiser.state.values():
        for tensor in held.values():
            tensor.zero_()
