"""A language model as search sees it: the source is a prompt, the output goes on from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.model.decoders import DecoderState
from headway.model.models import LanguageModel
from headway.search.logits_processors import Scores, Written
from headway.text.vocabulary import EOS


@dataclass
class Texts:
    """Texts being continued: what the model remembers of them, and what they are."""

    rows: DecoderState
    ids: Int[Tensor, "n t"]
    waiting: Float[Tensor, "n v"] | None  # scores of what follows the prompt, until search asks for them

    def reorder(self, rows: Int[Tensor, "n"]) -> None:
        self.rows.reorder(rows)
        self.ids = self.ids[rows]
        self.waiting = None if self.waiting is None else self.waiting[rows]

    def keep(self, sentences: Int[Tensor, "m"], beam: int) -> None:
        self.reorder((sentences[:, None] * beam + torch.arange(beam, device=sentences.device)).flatten())


class Continuing:
    """Prompts of one length in; search writes on.

    When a text is as long as `window`, its newer half is read again as a new beginning: the model never sees more
    context, or later positions, than it was trained with.
    """

    def __init__(self, model: LanguageModel, window: int) -> None:
        self.model, self.window = model, window

    def start(self, source: Int[Tensor, "b s"]) -> Texts:
        """Prompts begin with the begin piece; of longer ones than the window only the end is read."""
        return self.read(source[:, -self.window :])

    def read(self, ids: Int[Tensor, "n t"]) -> Texts:
        rows = self.model.start(len(ids))
        return Texts(rows, ids, self.model.feed(ids, rows)[:, -1])

    def step(self, last: Int[Tensor, "n"], rows: Texts) -> Float[Tensor, "n v"]:
        """Search begins with a begin piece of its own, which asks for what follows the prompt."""
        if len(last) > len(rows.ids):  # several samples of each prompt
            several = len(last) // len(rows.ids)
            rows.reorder(torch.arange(len(rows.ids), device=last.device).repeat_interleave(several))
        if rows.waiting is not None:
            scores, rows.waiting = rows.waiting, None
            return scores
        rows.ids = torch.cat([rows.ids, last[:, None]], dim=1)
        if rows.ids.size(1) <= self.window:
            return self.model.step(last, rows.rows)
        again = self.read(rows.ids[:, -max(1, self.window // 2) :])
        rows.rows, rows.ids = again.rows, again.ids
        assert again.waiting is not None
        return again.waiting


class OverLines:
    """Texts of many lines: the end of a line ends nothing. It is one more piece, after all others."""

    def __init__(self, inner: Continuing) -> None:
        self.inner, self.line = inner, inner.model.vocabulary

    def start(self, source: Int[Tensor, "b s"]) -> Texts:
        return self.inner.start(source)

    def step(self, last: Int[Tensor, "n"], rows: Texts) -> Float[Tensor, "n v"]:
        scores = self.inner.step(last.masked_fill(last == self.line, EOS), rows)
        ends = scores[:, EOS, None]
        return torch.cat([scores.index_fill(1, ends.new_tensor([EOS], dtype=torch.long), -torch.inf), ends], dim=1)


class Heard:
    """A shape that changes nothing: it hands on what has been written so far, as it is being written."""

    def __init__(self, hear: Callable[[list[int]], None]) -> None:
        self.hear = hear

    def __call__(self, scores: Scores, written: Written) -> Scores:
        self.hear(written.ids[0].tolist())
        return scores
