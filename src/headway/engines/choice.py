"""Which engine runs a model here, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from headway.engines.base import Engine, Precision, Unavailable
from headway.engines.ctranslate2.engine import CTranslate2Engine
from headway.engines.native.engine import NativeEngine
from headway.engines.pytorch import TorchEngine
from headway.errors import UsageError
from headway.model.design import Design

AUTO = "auto"
FASTEST_ON_CPU = ("native", "ctranslate2", "torch")
PRECISIONS = ("fp32", "int8")


@dataclass(frozen=True)
class Chosen:
    """An engine, and why it is this one."""

    engine: Engine
    reason: str


@dataclass(frozen=True)
class Wanted:
    """A model, and what is wanted of its engine."""

    model: nn.Module
    design: Design
    precision: str
    workers: int | None

    def quantised_if_free(self) -> Precision:
        """int8 unless something else is asked for: twice as fast, and within 0.2 BLEU of fp32 (docs/engines.md)."""
        return "int8" if self.precision == AUTO else cast(Precision, self.precision)


def choose(
    model: nn.Module,
    design: Design,
    engine: str = AUTO,
    precision: str = AUTO,
    workers: int | None = None,
) -> Chosen:
    """The fastest engine that can run this model where it is; or the one that is asked for, if it can."""
    check_known("engine", engine, FASTEST_ON_CPU)
    check_known("precision", precision, PRECISIONS)
    wanted = Wanted(model, design, precision, workers)
    device = next(model.parameters()).device
    names = FASTEST_ON_CPU if device.type == "cpu" else ("torch",)
    if engine == AUTO:
        return first_of(names, wanted, device)
    try:
        if engine not in names:
            raise Unavailable(f"it runs on the processor, and the model is on {device}")
        return Chosen(ENGINES[engine](wanted), "asked for")
    except Unavailable as reason:
        raise UsageError(f"engine {engine} cannot be used: {reason}; leave the choice to auto") from None


def check_known(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in (AUTO, *known):
        raise UsageError(f"{what} is {given!r}; choose one of {', '.join((AUTO, *known))}")


def first_of(names: tuple[str, ...], wanted: Wanted, device: torch.device) -> Chosen:
    reasons: list[str] = []
    for name in names:
        try:
            engine = ENGINES[name](wanted)
        except Unavailable as reason:
            reasons.append(f"not {name}: {reason}")
            continue
        return Chosen(engine, "; ".join(reasons) or f"the fastest on {device.type}")
    raise UsageError(f"no engine can be used: {'; '.join(reasons)}")


def make_native(wanted: Wanted) -> Engine:
    return NativeEngine(wanted.model, wanted.design, wanted.quantised_if_free(), wanted.workers)


def make_ctranslate2(wanted: Wanted) -> Engine:
    return CTranslate2Engine(wanted.model, wanted.design, wanted.quantised_if_free(), wanted.workers)


def make_torch(wanted: Wanted) -> Engine:
    if wanted.precision == "int8":
        raise Unavailable("it computes in fp32 only")
    return TorchEngine(wanted.model)


ENGINES: dict[str, Callable[[Wanted], Engine]] = {
    "native": make_native,
    "ctranslate2": make_ctranslate2,
    "torch": make_torch,
}
