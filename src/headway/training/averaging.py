"""Averages of weights along the way: the model that is published is smoother than the last step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from headway.storage.weights import Weights, fill, whole


def floating(weights: Weights) -> Weights:
    return {name: w for name, w in weights.items() if w.is_floating_point()}


class Average:
    """Keeps nothing: the last weights are published."""

    def update(self, step: int, total: int, weights: Callable[[], Weights]) -> None:
        """Called after every update."""

    def result(self, weights: Weights) -> Weights:
        """What should be published, given the weights now."""
        return weights

    def state(self) -> Weights:
        return {}

    def restore(self, state: Weights, weights: Weights) -> None:
        """Go on from a checkpoint; `weights` are the model's, and show where each tensor should lie."""


class RunningAverage(Average):
    """A mean of the weights, every few steps since a certain point, or with weights that fade."""

    def __init__(self, start: float, every: int, decay: float | None) -> None:
        self.start, self.every, self.decay = start, every, decay
        self.mean: Weights = {}
        self.count = 0

    @torch.no_grad()
    def update(self, step: int, total: int, weights: Callable[[], Weights]) -> None:
        if step < self.start * total:
            self.mean, self.count = {}, 0  # of an earlier, shorter run
        if step < self.start * total or step % self.every:
            return
        self.count += 1
        now = weights()
        if not self.mean:
            self.mean = {name: w.detach().float().clone() for name, w in floating(now).items()}
            return
        share = 1 / self.count if self.decay is None else 1 - min(self.decay, self.count / (self.count + 9))
        torch._foreach_lerp_(list(self.mean.values()), [now[name].detach().float() for name in self.mean], share)

    def result(self, weights: Weights) -> Weights:
        return {name: self.mean[name].to(w.dtype) if name in self.mean else w for name, w in weights.items()}

    def state(self) -> Weights:
        return {**self.mean, "|count": torch.tensor(self.count)} if self.mean else {}

    def restore(self, state: Weights, weights: Weights) -> None:
        self.count = int(state.get("|count", 0))
        self.mean = {n: torch.empty_like(w, dtype=torch.float32) for n, w in weights.items() if n in state}
        for name, mean in self.mean.items():
            fill(mean, state[name])


class LastAverage(Average):
    """The mean of the last few snapshots, as the paper averages its last checkpoints (section 6.1)."""

    def __init__(self, count: int, every: int) -> None:
        self.every, self.snapshots = every, deque[Weights](maxlen=count)

    @torch.no_grad()
    def update(self, step: int, total: int, weights: Callable[[], Weights]) -> None:
        if step % self.every == 0:
            self.snapshots.append({name: whole(w).cpu().clone() for name, w in floating(weights()).items()})

    @torch.no_grad()
    def result(self, weights: Weights) -> Weights:
        if not self.snapshots:
            return weights
        mean = {n: torch.stack([s[n].float() for s in self.snapshots]).mean(dim=0) for n in self.snapshots[0]}
        return {n: mean[n].to(w.device, w.dtype) if n in mean else w for n, w in weights.items()}

    def state(self) -> Weights:
        return {f"{i}|{name}": w for i, snapshot in enumerate(self.snapshots) for name, w in snapshot.items()}

    def restore(self, state: Weights, weights: Weights) -> None:
        self.snapshots.clear()
        for i in sorted({int(name.split("|", 1)[0]) for name in state}):
            prefix = f"{i}|"
            self.snapshots.append({n.removeprefix(prefix): w for n, w in state.items() if n.startswith(prefix)})


@dataclass(frozen=True)
class NoAveraging:
    """Publish the last weights."""

    kind: Literal["none"] = "none"

    def build(self) -> Average:
        return Average()


@dataclass(frozen=True)
class Tail:
    """Publish the mean over the last share of training."""

    kind: Literal["tail"] = "tail"
    share: float = 0.3  # share of all steps, at the end, that is averaged
    every: int = 10  # steps between two samples

    def build(self) -> Average:
        return RunningAverage(1 - self.share, self.every, None)


@dataclass(frozen=True)
class Exponential:
    """Publish a mean in which older weights fade."""

    kind: Literal["exponential"] = "exponential"
    decay: float = 0.999  # share of the old mean that is kept at each step

    def build(self) -> Average:
        return RunningAverage(0.0, 1, self.decay)


@dataclass(frozen=True)
class Last:
    """Publish the mean of the last snapshots, as the paper does with its checkpoints."""

    kind: Literal["last"] = "last"
    count: int = 5  # number of snapshots
    every: int = 1000  # steps between them

    def build(self) -> Average:
        return LastAverage(self.count, self.every)


Averaging = NoAveraging | Tail | Exponential | Last
