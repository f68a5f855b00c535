"""Reading a text with Transformer-XL's memory against sliding a plain model on by one token at a time.

The plain model sees `context` tokens before each one; with memory it is at least as many (a whole segment of that
length is remembered). The models have the same sizes, and random weights, which do not matter for time.

python -m bench.evaluation_memory [--contexts 128 256 512] [--device cpu]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from headway.model.design import LanguageModelDesign
from headway.model.feed_forward import Relu
from headway.model.models import LanguageModel
from headway.model.positions import Rotary, TransformerXL
from headway.model.residuals import Pre
from headway.tasks.language_model.perplexity import Document, remembered, strided
from headway.text.vocabulary import BOS

PIECES, TOKENS, SLID = 256, 8192, 256  # of the vocabulary; read with memory; read by sliding


def build(device: str, **changes: Any) -> LanguageModel:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"width": 256, "heads": 4, "layers": 4, "feed_forward": Relu(), "residual": Pre()}
    return LanguageModelDesign(**sizes, **changes).build(PIECES).to(device).eval()


def text(length: int) -> Document:
    return np.array([BOS, *np.random.default_rng(0).integers(4, PIECES, length)])


def speed(read: Callable[[Document], object], length: int, device: str) -> float:
    """Tokens a second, after a pass that only warms up."""
    ids, begun = text(length), 0.0
    for _ in range(2):
        begun = time.perf_counter()
        read(ids)
        if device == "cuda":
            torch.cuda.synchronize()
    return length / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    print("| context | memory, tokens/s | sliding by one, tokens/s | times as fast |\n|---|---|---|---|")
    for context in given.contexts:
        ours = build(given.device, positions=TransformerXL(), memory=context)
        plain = build(given.device, positions=Rotary())
        fast = speed(lambda ids: remembered(ours, [ids], context), TOKENS, given.device)  # noqa: B023
        # the first windows are shorter than the rest, which only favours sliding
        slow = speed(lambda ids: strided(plain, [ids], context, 1), context + SLID, given.device)  # noqa: B023
        print(f"| {context} | {fast:,.0f} | {slow:,.1f} | {fast / slow:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
