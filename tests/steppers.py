"""Small models for testing search: exact, odd and quick."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.model.design import EncoderDecoderDesign
from headway.model.feed_forward import Relu
from headway.model.models import EncoderDecoder
from headway.search.base import Stepper
from headway.text.vocabulary import BOS, EOS

DESIGN = EncoderDecoderDesign(
    width=32,
    heads=4,
    encoder_layers=2,
    decoder_layers=2,
    feed_forward=Relu(width=64),
    output_bias=True,
    tie_embeddings="none",
)


@dataclass
class History:
    """Everything each row has been told, and a number that tells its source apart."""

    told: Int[Tensor, "n t"]
    source: Float[Tensor, "n"]

    def reorder(self, rows: Int[Tensor, "n"]) -> None:
        self.told, self.source = self.told[rows], self.source[rows]

    def keep(self, sentences: Int[Tensor, "m"], beam: int) -> None:
        self.reorder((sentences[:, None] * beam + torch.arange(beam)).flatten())


@dataclass
class Oracle:
    """Scores that depend on the source and on every piece so far, without any rhyme or reason."""

    pieces: int
    end: float = 0.0  # how much it longs for the end
    sharp: float = 2.0

    def start(self, source: Int[Tensor, "b s"]) -> History:
        places = torch.arange(1.0, source.size(1) + 1)
        return History(torch.zeros(len(source), 0, dtype=torch.long), (source * places.sin() * (source != 0)).sum(1))

    def step(self, last: Int[Tensor, "n"], rows: History) -> Float[Tensor, "n v"]:
        each = len(last) // len(rows.source)
        if each > 1:
            rows.reorder(torch.arange(len(rows.source)).repeat_interleave(each))
        rows.told = torch.cat([rows.told, last[:, None]], dim=1)
        places = torch.arange(1.0, rows.told.size(1) + 1)
        seed = rows.source + (rows.told * (places * 1.7).cos() * 3.1).sum(dim=1)
        logits = self.sharp * torch.cos(seed[:, None] * torch.arange(1.0, self.pieces + 1) * 0.77 + places.sum())
        logits[:, EOS] += self.end
        return logits


def sources(*lengths: int, pieces: int = 12) -> Int[Tensor, "b s"]:
    """Random sentences that end with EOS, padded on the right."""
    rows = torch.zeros(len(lengths), max(lengths) + 1, dtype=torch.long)
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = torch.randint(4, pieces, (length,))
        row[length] = EOS
    return rows


def tiny_model(pieces: int = 12, end: float = 0.0, sharp: float = 2.0, seed: int = 0) -> EncoderDecoder:
    """A random Transformer whose outputs are neither all equal nor endless."""
    torch.manual_seed(seed)
    model = DESIGN.build(pieces).eval()
    with torch.no_grad():
        model.head.weight.normal_(std=sharp / 32**0.5)
        assert model.head.bias is not None
        model.head.bias[EOS] += end
    return model


def next_scores(model: Stepper, source: Int[Tensor, "s"], ids: tuple[int, ...]) -> list[float]:
    """Log-probabilities after `ids`, from a fresh start."""
    rows = model.start(source[None])
    every = [model.step(torch.tensor([last]), rows) for last in (BOS, *ids)]
    return every[-1].log_softmax(-1)[0].tolist()


def tell(ids: tuple[int, ...], total: float, length: int, alpha: float) -> tuple[float, list[int]]:
    return total / ((5 + length) / 6) ** alpha, list(ids)


def exhaustive(model: Stepper, source: Int[Tensor, "s"], steps: int, alpha: float) -> list[tuple[float, list[int]]]:
    """Every output that ends within the steps, the best first."""
    found, alive = [], {(): 0.0}
    for step in range(1, steps + 1):
        after = {}
        for ids, total in alive.items():
            scores = next_scores(model, source, ids)
            found.append(tell(ids, total + scores[EOS], step, alpha))
            after |= {(*ids, piece): total + scores[piece] for piece in range(4, len(scores))}
        alive = after
    return sorted(found, key=lambda one: -one[0])
