"""Logits processors: functions that mask or rescale the log-probabilities of the next token.

A processor may change the tensor it is given. Forbidding a token leaves the scores of the others as they are, so the
total of an output stays its log-probability under the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.errors import UsageError
from headway.text.vocabulary import EOS, PAD

Scores = Float[Tensor, "n v"]
NOWHERE = -1  # no token has this id


class GeneratedTokens(NamedTuple):
    """What each row has said so far, and whose row it is."""

    ids: Int[Tensor, "n t"]
    sentence: Int[Tensor, "n"]  # place of its source in the batch
    cap: Int[Tensor, "n"]  # steps it gets in all, the end included


LogitsProcessor = Callable[[Scores, GeneratedTokens], Scores]


def table(lists: Sequence[Sequence[int]], left: bool = False) -> Int[Tensor, "p l"]:
    """Lists of different lengths as a matrix, filled up with NOWHERE on the right or on the left."""
    longest = max((len(one) for one in lists), default=0)
    fill = [[NOWHERE] * (longest - len(one)) for one in lists]
    rows = [[*gap, *one] if left else [*one, *gap] for one, gap in zip(lists, fill, strict=True)]
    return torch.tensor(rows, dtype=torch.long).view(len(lists), longest)


class MinLength:
    """No end before so many tokens, one number for each sentence."""

    def __init__(self, fewest: Int[Tensor, "b"]) -> None:
        self.fewest = fewest

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        early = generated.ids.size(1) < self.fewest.to(scores.device)[generated.sentence]
        scores[:, EOS].masked_fill_(early, -torch.inf)
        return scores


class SuppressTokens:
    """Tokens that must not come out: language tags, placeholders."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = torch.tensor(list(ids), dtype=torch.long)

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        self.ids = self.ids.to(scores.device)
        return scores.index_fill_(1, self.ids, -torch.inf)


class NoRepeatNgram:
    """No run of `size` tokens twice in one output."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise UsageError(f"no-repeat size is {size}; it must be at least 1")
        self.size = size

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        ids, before = generated.ids, self.size - 1
        if ids.size(1) < self.size:
            return scores
        runs = torch.stack([ids[:, i : ids.size(1) - before + i] for i in range(before)], -1) if before else None
        said = torch.ones_like(ids, dtype=torch.bool) if runs is None else same(runs, ids[:, -before:])
        return forbid_where(scores, ids[:, before:], said)


def same(runs: Int[Tensor, "n r k"], now: Int[Tensor, "n k"]) -> Bool[Tensor, "n r"]:
    """Which runs of tokens were the same as the latest."""
    return (runs == now[:, None]).all(dim=-1)


def forbid_where(scores: Scores, tokens: Int[Tensor, "n r"], wrong: Bool[Tensor, "n r"]) -> Scores:
    """A token is forbidden if it is wrong anywhere in its row of the list."""
    limit = torch.full_like(tokens, torch.inf, dtype=scores.dtype).masked_fill_(wrong, -torch.inf)
    return scores.scatter_reduce_(1, tokens, limit, "amin")


class BannedPhrases:
    """Words that must not come out, each a sequence of tokens."""

    def __init__(self, phrases: Sequence[Sequence[int]]) -> None:
        if not all(phrases):
            raise UsageError("a banned word is empty; give at least one token for each")
        self.before = table([phrase[:-1] for phrase in phrases], left=True)
        self.last = torch.tensor([phrase[-1] for phrase in phrases], dtype=torch.long)

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        self.before, self.last = self.before.to(scores.device), self.last.to(scores.device)
        length = self.before.size(1)
        recent = torch.nn.functional.pad(generated.ids, (length, 0), value=NOWHERE)[:, generated.ids.size(1) :]
        begun = ((recent[:, None] == self.before) | (self.before == NOWHERE)).all(dim=-1)
        return forbid_where(scores, self.last.expand(len(scores), -1), begun)


class ForcedPrefix:
    """Each sentence's output begins with given tokens. Give it after other processors: it overrules them.

    A token that is forbidden elsewhere may be given here, such as a language tag; it then costs nothing.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]]) -> None:
        if any(token in (PAD, EOS) for prefix in prefixes for token in prefix):
            raise UsageError("a prefix holds padding or the end of a sentence; give only tokens that can be generated")
        self.tokens = table(prefixes)

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        step = generated.ids.size(1)
        if step >= self.tokens.size(1):
            return scores
        self.tokens = self.tokens.to(scores.device)
        token = self.tokens[generated.sentence, step][:, None]
        forced, place = token != NOWHERE, token.clamp(min=0)
        score = scores.gather(1, place)
        only = torch.full_like(scores, -torch.inf).scatter_(1, place, score.masked_fill(score == -torch.inf, 0.0))
        return torch.where(forced, only, scores)


class Temperature:
    """Sharper below 1, flatter above; probabilities of what is allowed then add up to one again."""

    def __init__(self, temperature: float) -> None:
        if not temperature > 0:
            raise UsageError(f"temperature is {temperature}; it must be more than 0")
        self.temperature = temperature

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        return (scores / self.temperature).log_softmax(dim=1)
