"""One training step from the forward pass to the update: eagerly, or as captured CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import UsageError
from headway.model.cuda_graph import Graph, record_onto
from headway.training.optimiser import Update, set_rate
from headway.training.recurrent_state import preserved, restore_state
from headway.training.task import Batch

DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def seed_of(seed: int, step: int, rank: int = 0) -> int:
    """The random seed of a step. It does not depend on earlier steps: a resumed run draws the same numbers."""
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB) & (2**64 - 1)
    return (mixed ^ (mixed >> 31)) & (2**63 - 1)


@dataclass(eq=False)
class Engine:
    """Makes one update from batches; returns total loss, cross-entropy, tokens, gradient norm, and 1 if all finite."""

    loss: nn.Module  # a BatchLoss, as it is or wrapped by DDP, FSDP or torch.compile
    update: Update
    precision: str
    device: torch.device
    recurrent_state: dict[str, Tensor] = field(default_factory=dict)  # what one step hands to the next
    splits: int = field(default=0, init=False)  # how often a batch had to be cut in two

    def __post_init__(self) -> None:
        self.dtype = DTYPES[self.precision]
        self.number = torch.zeros((), dtype=torch.long, device=self.device)  # of the step; objectives read it

    def step(self, batches: Sequence[Batch], number: int, seed: int, rate: float, tokens: float) -> Tensor:
        """Make update `number`. `tokens` divides the loss: those of this step, over all batches and ranks."""
        self.number.fill_(number)
        set_rate(self.update.optimiser, rate)
        sums = self.gradients(batches, seed, tokens)
        norm, finite = self.apply()
        return torch.cat([sums, norm.reshape(1), finite.reshape(1).to(norm.dtype)])

    def gradients(self, batches: Sequence[Batch], seed: int, tokens: float) -> Tensor:
        """Compute the gradients of a step. Where memory is too small, start again with every batch cut in two."""
        before = {name: tensor.clone() for name, tensor in self.recurrent_state.items()}
        while True:
            try:
                return self.all_gradients(batches, seed, tokens)
            except torch.OutOfMemoryError:
                batches = halves(batches)
            self.forget()
            restore_state(self.recurrent_state, before)
            torch.cuda.empty_cache()
            self.splits += 1

    def all_gradients(self, batches: Sequence[Batch], seed: int, tokens: float) -> Tensor:
        torch.manual_seed(seed)
        sums = torch.zeros(3, device=self.device)
        for number, batch in enumerate(batches):
            with self.unless_last(number + 1 < len(batches)):
                sums += self.one(batch.tensors(), tokens)
        return sums

    def one(self, tensors: tuple[Tensor, ...], tokens: float | Tensor) -> Tensor:
        with torch.autocast(self.device.type, self.dtype or torch.bfloat16, enabled=self.dtype is not None):
            total, nll, count = self.loss(self.number, *tensors)
        (total * (self.update.scale / tokens)).backward()
        return torch.stack([total.detach(), nll, count.to(total.dtype)])

    def apply(self) -> tuple[Tensor, Tensor]:
        result = self.update()
        self.forget()
        return result

    def forget(self) -> None:
        for weight in self.update.weights:
            weight.grad = None

    def unless_last(self, more: bool) -> AbstractContextManager[object]:
        """Ranks exchange gradients only after the last batch of a step."""
        exchange = getattr(self.loss, "set_requires_gradient_sync", None)  # FSDP2's way to say it
        if exchange is not None:
            exchange(not more)
        no_sync = getattr(self.loss, "no_sync", None)
        return no_sync() if more and no_sync is not None else nullcontext()


def halves(batches: Sequence[Batch]) -> list[Batch]:
    cut = [half for batch in batches for half in (batch.split() if len(batch.tensors()[0]) > 1 else (batch,))]
    if len(cut) == len(batches):
        raise UsageError("one sentence alone does not fit into memory; lower data.longest, or take a smaller model")
    return cut


@dataclass
class Recording:
    """A captured graph, the tensors it reads and the ones it writes."""

    graph: Graph
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()


@dataclass
class Recordings:
    """One recording a batch shape, one for the update; all share their memory."""

    by_shape: dict[tuple[torch.Size, ...], Recording] = field(default_factory=dict)
    update: Recording | None = None
    pool: Any = None


class CapturedEngine(Engine):
    """Small models are bound by launches, not by arithmetic: record a step's kernels once, then replay them.

    Needs batches of few shapes (`shapes = "bounded"`) and gradients that stay where they are.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for weight in self.update.weights:
            weight.grad = torch.zeros_like(weight)
        self.divisor = torch.ones((), device=self.device)
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)  # every recording is waited for
        self.recordings = Recordings()
        self.updates = 0

    def one(self, tensors: tuple[Tensor, ...], tokens: float | Tensor) -> Tensor:
        shapes = tuple(tensor.shape for tensor in tensors)
        recording = self.recordings.by_shape.get(shapes)
        if recording is None:
            recording = self.recordings.by_shape[shapes] = self.record(tensors)
        for held, new in zip(recording.inputs, tensors, strict=True):
            held.copy_(new, non_blocking=True)
        self.divisor.fill_(tokens)
        recording.graph.replay()
        return recording.outputs[0].clone()

    def record(self, tensors: tuple[Tensor, ...]) -> Recording:
        inputs = tuple(tensor.clone() for tensor in tensors)
        saved = [weight.grad.clone() for weight in self.update.weights if weight.grad is not None]
        state = torch.cuda.get_rng_state(self.device)
        with preserved(self.recurrent_state | dict(self.loss.named_buffers())):  # the trial run would change them
            recording = self.capture(lambda: (super(CapturedEngine, self).one(inputs, self.divisor),))
        recording.inputs = inputs
        torch.cuda.set_rng_state(state, self.device)
        for weight, gradient in zip(self.update.weights, saved, strict=True):
            weight.grad.copy_(gradient)  # pyright: ignore[reportOptionalMemberAccess]
        return recording

    def capture(self, work: Callable[[], tuple[Tensor, ...]]) -> Recording:
        """Run once beside the main stream, as libraries choose their kernels then; then record."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with record_onto(graph, self.recordings.pool):
            outputs = work()
        self.recordings.pool = self.recordings.pool or graph.pool()
        return Recording(graph, outputs=outputs)

    def apply(self) -> tuple[Tensor, Tensor]:
        self.updates += 1
        if self.updates < 3:  # the optimiser makes its tensors at its first step
            return super().apply()
        if self.recordings.update is None:
            self.recordings.update = self.record_update()
        self.recordings.update.graph.replay()
        norm, finite = self.recordings.update.outputs
        return norm.clone(), finite.clone()

    def record_update(self) -> Recording:
        """Recording does not run anything, so no trial run is made: it would change the weights."""
        graph = torch.cuda.CUDAGraph()
        with record_onto(graph, self.recordings.pool):
            outputs = super().apply()
        return Recording(graph, outputs=outputs)

    def forget(self) -> None:
        torch._foreach_zero_([weight.grad for weight in self.update.weights if weight.grad is not None])
