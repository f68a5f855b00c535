"""Muon: an update of a matrix turns every direction of it by as much (Jordan et al. 2024, Liu et al. 2025)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.devices import half_is_fast
from headway.model.attention import Attention
from headway.model.feed_forward import SwigluLayer
from headway.model.stacks import Stack

QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan's: five rounds bring singular values of 0.01 to 1 near 1
ROUNDS = 5
SHORTEST = 1e-7  # below, a matrix fades: what is left of an old momentum must not be turned at full length
ADAMS = 0.2  # the usual size of an entry of Adam's update: so one learning rate serves both (Liu et al., section 2.2)

Rows = tuple[int, ...]  # of each part of a matrix


def matrices(model: nn.Module) -> Iterator[tuple[Tensor, Rows]]:
    """Those inside layers: vocabularies are tables of vectors. What lies in one matrix for speed alone is parted."""
    parted: dict[nn.Module, Rows] = {}
    for module in model.modules():
        if isinstance(module, Attention):
            parted[module.qkv] = module.widths
        elif isinstance(module, SwigluLayer):
            parted[module.up] = (module.up.out_features // 2,) * 2
    layers = [layer for stack in model.modules() if isinstance(stack, Stack) for layer in stack.layers]
    for linear in [module for layer in layers for module in layer.modules() if isinstance(module, nn.Linear)]:
        yield linear.weight, parted.get(linear, (linear.out_features,))


@torch.no_grad()
def orthogonal(matrix: Float[Tensor, "n r c"], kind: torch.dtype = torch.float32) -> Float[Tensor, "n r c"]:
    """Nearly U Vᵀ of U S Vᵀ, by Newton and Schulz's iteration: products alone, and bf16 is exact enough for it."""
    tall = matrix.size(-2) > matrix.size(-1)
    x = matrix.mT if tall else matrix
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(SHORTEST)
    x = x.to(kind).contiguous()
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrix.dtype)


class Orthogonal(torch.optim.Optimizer):
    """Muon for matrices, another optimiser for the rest. `found_inf` is asked for as torch's fused ones do it."""

    found_inf: Tensor | None = None

    def __init__(
        self,
        given: dict[Tensor, Rows],
        rest: torch.optim.Optimizer,
        rate: float | Tensor,
        momentum: float,
        decay: float,
    ) -> None:
        super().__init__([{"params": list(given)}], {"lr": rate})
        self.given, self.rest, self.momentum, self.decay = given, rest, momentum, decay
        self.param_groups += rest.param_groups  # the same dictionaries: a rate is set for both
        self.state = rest.state
        self.kind = torch.bfloat16 if half_is_fast(next(iter(given)).device) else torch.float32

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # noqa: ARG002  # pyright: ignore[reportIncompatibleMethodOverride]
        self.rest.found_inf = self.found_inf  # pyright: ignore[reportAttributeAccessIssue]
        self.rest.step()
        rate = self.param_groups[0]["lr"]
        whole = 1.0 if self.found_inf is None else 1 - self.found_inf  # 0: nothing changes
        for parts in self.by_shape().values():
            weights, gradients, held = (list(column) for column in zip(*parts, strict=True))
            gradient, momentum = torch.stack(gradients).nan_to_num(0.0, 0.0, 0.0), torch.stack(held)
            momentum += (gradient - momentum) * ((1 - self.momentum) * whole)
            torch._foreach_copy_(held, list(momentum.unbind()))
            turned = orthogonal(gradient.lerp(momentum, self.momentum), self.kind)
            turned *= ADAMS * max(turned.shape[-2:]) ** 0.5 * rate * whole
            torch._foreach_mul_(weights, 1 - self.decay * rate * whole)
            torch._foreach_sub_(weights, list(turned.unbind()))

    def by_shape(self) -> dict[torch.Size, list[tuple[Tensor, Tensor, Tensor]]]:
        """Weights, gradients and momenta of equal matrices, which are turned in one go."""
        found = defaultdict[torch.Size, list[tuple[Tensor, Tensor, Tensor]]](list)
        for weight, rows in self.given.items():
            if weight.grad is None:
                continue
            if "momentum" not in self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
            three = (weight, weight.grad, self.state[weight]["momentum"])
            for part in zip(*(tensor.split(rows) for tensor in three), strict=True):
                found[part[0].shape].append(part)
        return found
