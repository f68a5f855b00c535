"""How well a model foresees a text: what it loses at every token, read in windows or with a memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from headway.data.documents import Amounts
from headway.data.padding import packs, pad_rows
from headway.model.losses import exact
from headway.model.models import LanguageModel
from headway.text.vocabulary import EOS

Document = Integer[np.ndarray, "_"]  # begin, pieces, ends
PACK_TOKENS, PACK_ROWS = 16_384, 256  # read at once
LOGITS = 1 << 22  # numbers held at once
PART = 4  # a part of a document is so many times as long as the beginning that is read twice


@dataclass(frozen=True)
class Perplexity:
    """What a text costs a model, by every unit that people count in."""

    nats: float  # of all tokens together
    amounts: Amounts

    @property
    def loss(self) -> float:
        """Nats a token."""
        return self.nats / max(1, self.amounts.tokens)

    @property
    def of_tokens(self) -> float:
        return math.exp(min(700.0, self.loss))

    @property
    def of_words(self) -> float:
        """Comparable between vocabularies: the same text has the same words."""
        return math.exp(min(700.0, self.nats / max(1, self.amounts.words)))

    @property
    def bits_per_character(self) -> float:
        return self.nats / math.log(2) / max(1, self.amounts.characters)

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / max(1, self.amounts.bytes)


class Window(NamedTuple):
    """A part of a document that is read at once; only its end is counted."""

    document: int
    start: int
    counted: int  # from here on
    stop: int

    @property
    def counts(self) -> int:
        return self.stop - self.counted


def windows(lengths: Sequence[int], longest: int, stride: int) -> Iterator[Window]:
    """Windows of up to `longest` tokens, each `stride` further than the last: the rest of it is context.

    `stride` = `longest`: segments without context. `stride` = 1: every token with all the context there is.
    """
    for document, length in enumerate(lengths):
        for counted in range(0, length, stride):
            start = max(0, counted - (longest - stride))
            yield Window(document, start, counted, min(length, counted + stride))


@torch.inference_mode()
def strided(model: LanguageModel, documents: Sequence[Document], longest: int, stride: int) -> list[np.ndarray]:
    """The nats of every token after each document's begin, by windows without memory."""
    losses = [np.zeros(len(document) - 1) for document in documents]
    device = model.head.weight.device
    cut = list(windows([len(document) - 1 for document in documents], longest, stride))
    for pack in packs([window.stop - window.start for window in cut], PACK_TOKENS, PACK_ROWS):
        some = [cut[i] for i in pack]
        hidden, _ = model.hidden(pad_rows([documents[w.document][w.start : w.stop].tolist() for w in some], device))
        ends = torch.cat([row[w.counted - w.start : w.stop - w.start] for row, w in zip(hidden, some, strict=True)])
        labels = np.concatenate([documents[w.document][w.counted + 1 : w.stop + 1] for w in some])
        found = np.split(nats(model, ends, torch.from_numpy(labels).to(device)), np.cumsum([w.counts for w in some]))
        for window, lost in zip(some, found, strict=False):
            losses[window.document][window.counted : window.stop] = lost
    return losses


@torch.inference_mode()
def remembered(model: LanguageModel, documents: Sequence[Document], segment: int) -> list[np.ndarray]:
    """The same segment by segment, each with the model's memory of those before it.

    A layer looks at most one memory back, so what lies further back than all layers together reach changes nothing:
    a long document is cut into parts that are read side by side, each after a beginning that only fills the memory.
    """
    losses = [np.zeros(len(document) - 1) for document in documents]
    reach = len(model.transformer.layers) * -(-model.memory // segment) * segment
    stride = PART * max(reach, segment)
    cut = list(windows([len(lost) for lost in losses], stride + reach, stride))
    rows = max(1, PACK_TOKENS // (segment + model.memory))
    for pack in packs([window.stop - window.start for window in cut], rows * (stride + reach), min(rows, PACK_ROWS)):
        some = [cut[i] for i in pack]
        unread = min(window.counted - window.start for window in some)
        read = _remembered(model, [documents[w.document][w.start : w.stop + 1] for w in some], segment, unread)
        for window, lost in zip(some, read, strict=True):
            counted = lost[window.counted - window.start : window.stop - window.start]
            losses[window.document][window.counted : window.stop] = counted
    return losses


def _remembered(model: LanguageModel, parts: Sequence[Document], segment: int, unread: int) -> Float[np.ndarray, "b t"]:
    """Side by side; rows that are shorter end in padding, which nothing looks back at. `unread`: only remembered."""
    tokens, memory = pad_rows([part.tolist() for part in parts], model.head.weight.device), list[Tensor]()
    inputs, labels = tokens[:, :-1], tokens[:, 1:]
    losses = np.zeros(labels.shape)
    for begin in range(0, labels.size(1), segment):
        here = slice(begin, begin + segment)
        hidden, memory = model.hidden(inputs[:, here], memory)
        if begin >= unread:
            losses[:, here] = nats(model, hidden.flatten(0, 1), labels[:, here].flatten()).reshape(len(parts), -1)
    return losses


def nats(model: LanguageModel, hidden: Float[Tensor, "t d"], labels: Tensor) -> Float[np.ndarray, " t"]:
    """Minus the logarithm of each label's probability, a few thousand tokens at a time."""
    weight, lost = model.head.weight, [hidden.new_zeros(0)]
    never, size = absent(weight), max(1, LOGITS // len(weight))
    for x, y in zip(hidden.split(size), labels.split(size), strict=True):
        scores = exact(model.head(x))
        scores[:, : len(never)].masked_fill_(never, -torch.inf)
        lost.append(-scores.log_softmax(dim=-1).gather(-1, y[:, None])[:, 0])
    return torch.cat(lost).double().cpu().numpy()


def absent(weight: Float[Tensor, "v d"]) -> Bool[Tensor, "special"]:
    """Special pieces that an imported model does not have: their vectors are zero, or those of the end again."""
    special = weight[:EOS]
    return (special == 0).all(dim=1) | (special == weight[EOS]).all(dim=1)
