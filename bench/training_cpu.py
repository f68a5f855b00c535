"""Training on a processor: headway beside torch.nn.Transformer and Hugging Face Marian, on the same batches.

python -m bench.training_cpu [--model small] [--tokens 4096] [--rounds 5] [--only headway,torch]

Sentences have the lengths of picture captions (about 15 pieces), packed by headway for everybody, so nobody wastes
padding. All keep the same recipe: dropout, label smoothing, clipping, fused Adam. Rounds are interleaved: a
disturbance hits everybody. Counted are target tokens that are no padding; the ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.training_step import Marian
from headway import recipes
from headway.data.batches import Batch
from headway.data.bucketing import Exact, Lengths
from headway.data.order import Cursor
from headway.devices import cores
from headway.model.design import EncoderDecoderDesign
from headway.tasks.translation.task import TranslationForward
from headway.text.vocabulary import BOS, EOS, PAD
from headway.training.engine import Engine
from headway.training.objectives import BatchLoss, TeacherForcing
from headway.training.optimiser import Adam, Update

VOCABULARY, SMOOTHING, CLIP, RATE = 8000, 0.1, 1.0, 1e-3
SENTENCES = 4000

Step = Callable[[Batch], float]


@dataclass(frozen=True)
class System:
    """Something that trains."""

    name: str
    step: Step


# ---------------------------------------------------------------- batches


def lengths(dice: np.random.Generator) -> Lengths:
    """Like Multi30k in 8,000 pieces: 15 pieces on average, few over 30, both sides alike."""
    source = np.clip(dice.lognormal(2.65, 0.33, SENTENCES), 4, 60).astype(np.int64)
    target = np.clip(source * dice.lognormal(0.0, 0.15, SENTENCES), 4, 60).astype(np.int64)
    return Lengths(source, target + 1)


def make_batches(tokens: int, count: int) -> list[Batch]:
    dice = np.random.default_rng(0)
    sizes = lengths(dice)
    plan = Exact(tokens, None, 100).pack(sizes, dice)
    return [make_batch(*plan.batch(number), sizes, dice) for number in range(min(count, len(plan) - 1))]


def make_batch(rows: np.ndarray, shape: tuple[int, int, int], sizes: Lengths, dice: np.random.Generator) -> Batch:
    source, labels = (torch.full((len(rows), width), PAD) for width in shape[1:])
    for number, row in enumerate(rows):
        for table, length in ((source, int(sizes.source[row])), (labels, int(sizes.target[row]))):
            table[number, :length] = torch.from_numpy(dice.integers(4, VOCABULARY, length))
            table[number, length - 1] = EOS
    inputs = labels.roll(1, dims=1)
    inputs[:, 0] = BOS
    real = [int((side != PAD).sum()) for side in (labels, source)]
    return Batch(source, inputs, labels, real[0], real[1], rows, Cursor())


# ---------------------------------------------------------------- systems


def headway_step(design: EncoderDecoderDesign, precision: str) -> Step:
    """The trainer's own engine."""
    model = design.build(VOCABULARY).train()
    update = Update(Adam().build(model, RATE), CLIP, half=False)
    loss = BatchLoss(TranslationForward(model), TeacherForcing(label_smoothing=SMOOTHING).build())
    engine = Engine(loss, update, precision, torch.device("cpu"))
    return lambda batch: float(engine.step([batch], 1, 1, RATE, float(batch.tokens))[0])


class Torch(nn.Module):
    """torch.nn.Transformer with a shared embedding and padding masks, as its users write it."""

    def __init__(self, design: EncoderDecoderDesign) -> None:
        super().__init__()
        inner = getattr(design.feed_forward, "width", None) or 4 * design.width
        self.embedding, self.width = nn.Embedding(VOCABULARY, design.width, PAD), design.width
        self.places = nn.Embedding(128, design.width)
        self.dropout = nn.Dropout(design.dropout)
        self.core = nn.Transformer(
            design.width, design.heads, design.encoder_layers, design.decoder_layers, inner, design.dropout,
            batch_first=True,
        )  # fmt: skip

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.width**0.5 + self.places.weight[: ids.size(1)])

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(inputs.size(1), dtype=torch.bool)
        padding = source == PAD
        hidden = self.core(
            self.embed(source), self.embed(inputs), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return F.linear(hidden, self.embedding.weight)


class HuggingFace(nn.Module):
    def __init__(self, design: EncoderDecoderDesign) -> None:
        super().__init__()
        self.core = Marian(design, VOCABULARY).core

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        mask = (source != PAD).long()
        return self.core(input_ids=source, attention_mask=mask, decoder_input_ids=inputs, use_cache=False).logits


def peer_step(model: nn.Module, precision: str) -> Step:
    optimiser = torch.optim.Adam(model.train().parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(batch: Batch) -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = model(batch.source, batch.inputs)
        loss = F.cross_entropy(
            logits.flatten(0, 1).float(), batch.labels.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return float(loss.detach())

    return step


def systems(design: EncoderDecoderDesign, only: str) -> list[System]:
    makers: dict[str, Callable[[], Step]] = {
        "headway bf16": lambda: headway_step(design, "bf16"),
        "headway fp32": lambda: headway_step(design, "fp32"),
        "torch.nn.Transformer bf16": lambda: peer_step(Torch(design), "bf16"),
        "torch.nn.Transformer fp32": lambda: peer_step(Torch(design), "fp32"),
        "Hugging Face Marian bf16": lambda: peer_step(HuggingFace(design), "bf16"),
        "Hugging Face Marian fp32": lambda: peer_step(HuggingFace(design), "fp32"),
    }
    wanted = [word for word in only.split(",") if word]
    return [System(n, make()) for n, make in makers.items() if not wanted or any(word in n for word in wanted)]


# ---------------------------------------------------------------- measurement


def rates(all_systems: list[System], batches: list[Batch], rounds: int) -> dict[str, list[float]]:
    """Real target tokens a second of each system in each round."""
    tokens = sum(batch.tokens for batch in batches)
    found: dict[str, list[float]] = {system.name: [] for system in all_systems}
    for system in all_systems:
        system.step(batches[0])
    for _ in range(rounds):
        for system in all_systems:
            begun = time.perf_counter()
            for batch in batches:
                system.step(batch)
            found[system.name].append(tokens / (time.perf_counter() - begun))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="small", choices=list(recipes.ENCODER_DECODERS))
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    batches = make_batches(given.tokens, given.batches)
    found = rates(systems(recipes.ENCODER_DECODERS[given.model](), given.only), batches, given.rounds)
    first = next(iter(found))
    print(f"| {given.model}, {given.tokens} tokens, {given.threads} threads | target tokens/s | {first} is faster by |")
    print("|---|---|---|")
    for name, rounds in found.items():
        ratio = median(ours / theirs for ours, theirs in zip(found[first], rounds, strict=True))
        print(f"| {name} | {median(rounds):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
