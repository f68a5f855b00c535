"""Which engine runs a model where it is, and why a faster one does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from headway.engines import pytorch
from headway.engines.base import Engine, Unavailable, Unsupported
from headway.engines.ctranslate2 import engine as ctranslate2
from headway.engines.cuda import engine as cuda
from headway.engines.native import support as native
from headway.engines.native.engine import NativeEngine
from headway.errors import UsageError
from headway.model.design import Design

AUTO = "auto"
PRECISIONS = ("fp32", "bf16", "int8")
FASTEST = {"cpu": ("native", "ctranslate2", "torch"), "cuda": ("cuda", "torch")}  # by device, the fastest first


@dataclass(frozen=True)
class Chosen:
    """An engine, and why it is this one."""

    engine: Engine
    reason: str
    passed_over: bool = False  # whether a faster engine cannot be used; the reason says why

    def notice(self, asked: str = AUTO) -> str | None:
        """One line for the user: nothing to say where the fastest engine runs and none was asked for by name."""
        if asked == AUTO and not self.passed_over:
            return None
        return f"engine {self.engine.name} ({self.engine.precision}): {self.reason}"


@dataclass(frozen=True)
class Wanted:
    """A model, and what is wanted of its engine."""

    model: nn.Module
    design: Design
    precision: str
    workers: int | None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device


@dataclass(frozen=True)
class Kind:
    """An engine that may be chosen."""

    unsupported: Unsupported
    precisions: tuple[str, ...]  # the first is the fastest, and loses next to nothing (docs/engines.md)
    make: Callable[[Wanted, Any], Engine]  # with one of these precisions; raises Unavailable

    def open(self, wanted: Wanted) -> Engine:
        """The engine, ready to run; raises Unavailable with the reason."""
        precision = self.precisions[0] if wanted.precision == AUTO else wanted.precision
        if precision not in self.precisions:
            raise Unavailable(f"it computes in {' or '.join(sorted(self.precisions))}, not in {precision}")
        if (reason := self.unsupported(wanted.design)) is not None:
            raise Unavailable(reason)
        return self.make(wanted, precision)


def make_native(wanted: Wanted, precision: Any) -> Engine:
    return NativeEngine(wanted.model, wanted.design, precision, wanted.workers)


def make_ctranslate2(wanted: Wanted, precision: Any) -> Engine:
    return ctranslate2.CTranslate2Engine(wanted.model, wanted.design, precision, wanted.workers)


def make_torch(wanted: Wanted, _: Any) -> Engine:
    return pytorch.TorchEngine(wanted.model)


def make_cuda(wanted: Wanted, precision: Any) -> Engine:
    return cuda.CudaEngine(cast(Any, wanted.model), wanted.design, precision)


ENGINES = {
    "native": Kind(native.unsupported, ("int8", "fp32"), make_native),
    "ctranslate2": Kind(ctranslate2.unsupported, ("int8", "fp32"), make_ctranslate2),
    "torch": Kind(pytorch.unsupported, ("fp32",), make_torch),
    "cuda": Kind(cuda.unsupported, ("bf16", "fp32"), make_cuda),
}


def choose(
    model: nn.Module,
    design: Design,
    engine: str = AUTO,
    precision: str = AUTO,
    workers: int | None = None,
) -> Chosen:
    """The fastest engine that can run this model where it is; or the one that is asked for, if it can."""
    check_known("engine", engine, tuple(ENGINES))
    check_known("precision", precision, PRECISIONS)
    wanted = Wanted(model, design, precision, workers)
    names = FASTEST.get(wanted.device.type, ("torch",))
    if engine == AUTO:
        return first_of(names, wanted)
    try:
        if engine not in names:
            raise Unavailable(wrong_device(engine, wanted.device))
        return Chosen(ENGINES[engine].open(wanted), "it was asked for")
    except Unavailable as reason:
        raise UsageError(f"engine {engine} cannot be used: {reason}; leave the choice to auto") from None


def check_known(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in (AUTO, *known):
        raise UsageError(f"{what} is {given!r}; choose one of {', '.join((AUTO, *known))}")


def wrong_device(engine: str, device: torch.device) -> str:
    """Why this engine cannot run a model on this device."""
    if engine == "cuda" and not torch.cuda.is_available():
        return "it needs an NVIDIA GPU, and PyTorch can use no CUDA device on this machine"
    needed = "cuda" if engine == "cuda" else "cpu"
    return f"it runs on {needed}, and the model is on {device}; choose device {needed}"


def first_of(names: tuple[str, ...], wanted: Wanted) -> Chosen:
    reasons: list[str] = []
    for name in names:
        try:
            engine = ENGINES[name].open(wanted)
        except Unavailable as reason:
            reasons.append(f"{name} cannot be used: {reason}")
            continue
        return Chosen(engine, "; ".join(reasons) or f"it is the fastest on {wanted.device.type}", bool(reasons))
    raise UsageError(f"no engine can be used: {'; '.join(reasons)}")
