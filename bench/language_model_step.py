"""How much of the chip training uses: language models beside translation, by the trainer's own engines, in one run.

python -m bench.language_model_step [--device cuda] [--ways eager,captured,compiled,both] [--only base] [--peak 989]

Model FLOPs are those of the matrix products of forward and backward, attention as if nothing were masked; a peak of
989 TFLOP/s is that of an H100 or H200 in bf16. "both" records the kernels that torch.compile made.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from headway import recipes
from headway.data.batches import Batch
from headway.data.order import Cursor
from headway.data.segments import Segments
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign
from headway.model.feed_forward import Gelu, Relu
from headway.model.kernels import Softmax
from headway.model.positions import Learned, Rotary
from headway.model.residuals import Pre
from headway.tasks.language_model.next_token import InputNoise, SegmentForward
from headway.tasks.translation.task import TranslationForward
from headway.training.engine import CapturedEngine, Engine, seed_of
from headway.training.objectives import BatchLoss, TeacherForcing
from headway.training.optimiser import Adam, Update

WARM = 8  # steps before the clock: kernels are chosen, graphs recorded
BLOCKS, STEPS = 5, 10  # the median of so many times so many steps, none of which waits for the device
WAYS: dict[str, tuple[type[Engine], bool]] = {  # the engine, and whether the loss is compiled
    "eager": (Engine, False),
    "captured": (CapturedEngine, False),
    "compiled": (Engine, True),
    "both": (CapturedEngine, True),
}


@dataclass(frozen=True)
class Case:
    """A model and the shape of its batches."""

    name: str
    design: EncoderDecoderDesign | LanguageModelDesign
    vocabulary: int
    rows: int
    length: int

    def loss(self) -> BatchLoss:
        if isinstance(self.design, LanguageModelDesign):
            forward = SegmentForward(self.design.build(self.vocabulary), InputNoise())
            return BatchLoss(forward, TeacherForcing(label_smoothing=0.0).build())
        return BatchLoss(TranslationForward(self.design.build(self.vocabulary)), TeacherForcing().build())

    def batch(self) -> Batch | Segments:
        ids = [torch.randint(4, self.vocabulary, (self.rows, self.length)) for _ in range(3)]
        tokens, numbers = ids[0].numel(), np.arange(self.rows)
        if isinstance(self.design, LanguageModelDesign):
            return Segments(ids[0], ids[1], (), tokens, numbers, Cursor())
        return Batch(ids[0], ids[1], ids[2], tokens, tokens, numbers, Cursor())

    def flops(self) -> float:
        """Of one step: counted without doing it, with attention written out as products."""
        plain = replace(self, design=replace(self.design, attention=Softmax()), rows=1)
        if isinstance(plain.design, EncoderDecoderDesign):
            plain = replace(plain, design=replace(plain.design, cross_attention=Softmax()))
        with FakeTensorMode(), FlopCounterMode(display=False) as counter:
            total, _, _ = plain.loss().eval()(torch.tensor(1), *plain.batch().tensors())
            total.backward()
        return counter.get_total_flops() * self.rows


def cases(scale: int) -> list[Case]:
    """`scale` makes everything smaller, to try this out on a processor."""
    nano = LanguageModelDesign(
        width=384, heads=6, layers=6, feed_forward=Gelu(), positions=Learned(), residual=Pre(), dropout=0.2,
        attention_dropout=0.2, bias=False, scale_embedding=False, longest=256,
    )  # fmt: skip
    base = LanguageModelDesign(
        width=512, heads=8, layers=6, feed_forward=Gelu(), positions=Rotary(), residual=Pre(), scale_embedding=False
    )
    beside_nano = EncoderDecoderDesign(
        width=384, heads=6, encoder_layers=3, decoder_layers=3, feed_forward=Relu(width=1536), dropout=0.2
    )
    rows, pieces = 200 // scale, 32_000 // scale  # as many tokens as the translation has on both sides
    return [
        Case("translation, base", recipes.base(), pieces, 800 // scale, 32),
        Case("language model, base", base, pieces, rows, 256),
        Case("translation, 384 wide, 3+3 layers", beside_nano, pieces, 800 // scale, 32),
        Case("language model, nanoGPT's size, letters", nano, 65, rows, 256),
        Case("the same, pieces", nano, pieces, rows, 256),
    ]


def seconds(case: Case, way: str, device: torch.device, precision: str) -> float:
    """Of one step of the trainer's engine."""
    kind, compiled = WAYS[way]
    torch._dynamo.reset()
    torch.manual_seed(0)
    plain = case.loss().to(device).train()
    loss = cast("nn.Module", torch.compile(plain, dynamic=False)) if compiled else plain
    engine = kind(loss, Update(Adam().build(plain, 1e-4), 1.0, half=False), precision, device)
    batch = case.batch().to(device)

    def steps(count: int) -> Tensor:
        return [engine.step([batch], step, seed_of(1, step), 1e-4, float(batch.tokens)) for step in range(count)][-1]

    took, many = list[float](), STEPS if device.type == "cuda" else 1
    steps(WARM if device.type == "cuda" else 1).tolist()
    for _ in range(BLOCKS if device.type == "cuda" else 1):
        begun = time.perf_counter()
        steps(many).tolist()
        took.append((time.perf_counter() - begun) / many)
    return median(took)


def report(chosen: Sequence[Case], ways: Sequence[str], device: torch.device, precision: str, peak: float) -> None:
    print(f"| {precision}, tokens/s (share of {peak:g} TFLOP/s) | GFLOP a step | {' | '.join(ways)} |")
    print("|---" * (len(ways) + 2) + "|")
    for case in chosen:
        flops, cells = case.flops(), list[str]()
        for way in ways:
            took = seconds(case, way, device, precision)
            share = flops / took / (peak * 1e12)
            cells.append(f"{case.rows * case.length / took:,.0f} ({100 * share:.1f} %)")
        print(f"| {case.name}, {case.rows}x{case.length} | {flops / 1e9:,.0f} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--ways", default="")
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp32"])
    parser.add_argument("--peak", type=float, default=989.0, help="TFLOP/s of the chip")
    parser.add_argument("--scale", type=int, default=1, help="divide batches and vocabularies by this")
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    device = torch.device(given.device)
    ways = given.ways.split(",") if given.ways else [*WAYS] if device.type == "cuda" else ["eager"]
    chosen = [case for case in cases(given.scale) if given.only in case.name]
    report(chosen, ways, device, given.precision, given.peak)


if __name__ == "__main__":
    main()
