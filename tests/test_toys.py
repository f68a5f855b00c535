"""Small models learn small tasks in seconds: parts that fit together on paper also learn together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.model.design import EncoderDecoderDesign, LanguageModelDesign
from headway.model.kernels import Linear
from headway.model.models import EncoderDecoder, LanguageModel
from headway.model.positions import Rotary, Sinusoidal, TransformerXL
from headway.model.residuals import Pre
from headway.text.vocabulary import BOS, EOS

KINDS, LENGTH = 8, 6  # different symbols, and how many stand in a row
WORDS = 4 + KINDS

Loss = Callable[[], Tensor]
Accuracy = Callable[[], float]


def learn(model: nn.Module, loss: Loss, accuracy: Accuracy, rate: float, steps: int = 400) -> float:
    """Plain Adam with a short warm-up and a linear decay, until the task is mastered or the steps are used up."""
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda n: min((n + 1) / 50, (steps - n) / steps))
    for step in range(steps):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 49 and measure(model, accuracy) > 0.99:
            break
    return measure(model, accuracy)


@torch.no_grad()
def measure(model: nn.Module, accuracy: Accuracy) -> float:
    model.eval()
    share = accuracy()
    model.train()
    return share


# ---------------------------------------------------------------- a row of symbols to a row of symbols

TASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "copy": lambda x: x,
    "reverse": lambda x: x.flip(1),
    "sort": lambda x: x.sort(dim=1).values,
}
SMALL: dict[str, Any] = {"width": 32, "heads": 4, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
TRANSLATORS = {
    "base": EncoderDecoderDesign(**SMALL),
    "linear": EncoderDecoderDesign(**SMALL, attention=Linear(chunk=16), cross_attention=Linear()),
    "rotary": EncoderDecoderDesign(**SMALL, positions=Rotary(), residual=Pre()),
}


def symbols(rows: int, length: int = LENGTH) -> Tensor:
    return torch.randint(4, WORDS, (rows, length))


def framed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Source with its end, target with its beginning, labels with their end."""
    begin, end = torch.full((len(x), 1), BOS), torch.full((len(x), 1), EOS)
    return torch.cat([x, end], dim=1), torch.cat([begin, y], dim=1), torch.cat([y, end], dim=1)


def write(model: EncoderDecoder, source: Tensor) -> Tensor:
    """Greedy, step by step: what a search would do."""
    rows, last, written = model.start(source), torch.full((len(source),), BOS), []
    for _ in range(LENGTH + 1):
        last = model.step(last, rows).argmax(dim=-1)
        written.append(last)
    return torch.stack(written, dim=1)


@pytest.mark.parametrize("design", TRANSLATORS)
@pytest.mark.parametrize("task", TASKS)
def test_a_row_is_copied_reversed_and_sorted(task: str, design: str) -> None:
    model = TRANSLATORS[design].build(WORDS)

    def loss() -> Tensor:
        x = symbols(64)
        source, target, labels = framed(x, TASKS[task](x))
        return F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten())

    def accuracy() -> float:
        x = symbols(200)
        source, _, labels = framed(x, TASKS[task](x))
        return float((write(model, source) == labels).all(dim=1).float().mean())

    assert learn(model, loss, accuracy, rate=5e-3) > 0.9


# ---------------------------------------------------------------- what belonged to this key?

PAIRS = 4
REMINDERS = {"sinusoidal": Sinusoidal(), "rotary": Rotary(), "transformer_xl": TransformerXL()}


def pairs(rows: int) -> Tensor:
    """Keys each followed by their value; then the same keys in another order, each with its value again."""
    keys = torch.rand(rows, KINDS).argsort(dim=1)[:, :PAIRS] + 4
    values = torch.randint(WORDS, WORDS + KINDS, (rows, PAIRS))
    order = torch.rand(rows, PAIRS).argsort(dim=1)
    shown = torch.stack([keys, values], dim=2)
    asked = torch.stack([keys.gather(1, order), values.gather(1, order)], dim=2)
    return torch.cat([shown, asked], dim=1).flatten(1)


@pytest.mark.parametrize("positions", REMINDERS)
def test_associations_are_recalled(positions: str) -> None:
    residual = {"residual": Pre()} if positions != "sinusoidal" else {}
    design = LanguageModelDesign(width=64, heads=4, layers=2, dropout=0.0, positions=REMINDERS[positions], **residual)
    model = design.build(WORDS + KINDS)

    def answers(rows: int) -> tuple[Tensor, Tensor]:
        text = pairs(rows)
        return model(text[:, :-1])[:, 2 * PAIRS :: 2], text[:, 2 * PAIRS + 1 :: 2]

    def loss() -> Tensor:
        scores, values = answers(64)
        return F.cross_entropy(scores.flatten(0, 1), values.flatten())

    def accuracy() -> float:
        scores, values = answers(200)
        return float((scores.argmax(dim=-1) == values).float().mean())

    assert learn(model, loss, accuracy, rate=2e-3, steps=600) > 0.95


# ---------------------------------------------------------------- what was said in the segment before?


def recite(memory: int) -> float:
    """Symbols are shown in one segment and asked for in the next, where nothing tells them but the memory."""
    torch.manual_seed(0)
    design = LanguageModelDesign(width=32, heads=4, layers=1, dropout=0.0, positions=TransformerXL(), memory=memory)
    model: LanguageModel = design.build(WORDS)

    def answers(rows: int) -> tuple[Tensor, Tensor]:
        shown = symbols(rows)
        asked = torch.cat([torch.full((rows, 1), BOS), shown[:, :-1]], dim=1)
        _, remembered = model.hidden(shown)
        return model.head(model.hidden(asked, remembered)[0]), shown

    def loss() -> Tensor:
        scores, shown = answers(64)
        return F.cross_entropy(scores.flatten(0, 1), shown.flatten())

    def accuracy() -> float:
        scores, shown = answers(300)
        return float((scores.argmax(dim=-1) == shown).float().mean())

    return learn(model, loss, accuracy, rate=1e-2, steps=200)


def test_memory_reaches_into_the_segment_before() -> None:
    """The same model without memory stays where guessing is."""
    assert recite(memory=LENGTH) > 0.99
    assert recite(memory=0) < 1.5 / KINDS
