"""Several taggers or classifiers that decide together: a label is as likely as they find it on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headway.errors import UsageError
from headway.parts.crf import viterbi
from headway.tasks.base import Predictor
from headway.tasks.classifier import Classifier
from headway.tasks.tagger import ROWS, TOKENS, Tagged, Tagger
from headway.translating import packs

SMALLEST = 1e-30  # chance, as its logarithm is taken


def order_of(labels: Sequence[str], first: Sequence[str]) -> list[int]:
    """Where a model has each label of the first one: what was held out decides which came first."""
    return [labels.index(label) for label in first]


class Taggers(Tagger):
    """Of the words' mean chances the best labels that may stand side by side. Each reads pieces of its own."""

    def __init__(self, members: Sequence[Tagger]) -> None:
        first = members[0]
        super().__init__(first.model, first.reader, first.labelling, first.device)
        self.members = [(one, order_of(one.labelling.labels, first.labelling.labels)) for one in members]

    @torch.inference_mode()
    def tag(self, given: Sequence[Sequence[str]]) -> list[Tagged]:
        means = self.chances(given)
        labels, sure = [list[int]() for _ in given], [list[float]() for _ in given]
        for pack in packs([max(1, len(words)) for words in given], TOKENS, ROWS):
            lengths = torch.tensor([len(given[i]) for i in pack], device=self.device)
            chances = pad_sequence([means[i] for i in pack], batch_first=True)
            real = torch.arange(chances.size(1), device=self.device) < lengths[:, None]
            best = viterbi(chances.clamp_min(SMALLEST).log(), real, self.chain) if chances.size(1) else real.long()
            chosen = chances.gather(-1, best[..., None])[..., 0]
            for i, row, chance in zip(pack, best.tolist(), chosen.tolist(), strict=True):
                labels[i], sure[i] = row[: len(given[i])], chance[: len(given[i])]
        return self.told(given, labels, sure)

    def chances(self, given: Sequence[Sequence[str]]) -> list[Float[Tensor, "w v"]]:
        found = [[chances[:, order] for chances in one.chances(given)] for one, order in self.members]
        return [torch.stack(each).mean(dim=0) for each in zip(*found, strict=True)]


class Classifiers(Classifier):
    """The mean of the chances, and of the thresholds. Each reads pieces of its own."""

    def __init__(self, members: Sequence[Classifier]) -> None:
        first, threshold = members[0], float(np.mean([member.threshold for member in members]))
        super().__init__(first.model, first.tokenizer, first.classes, first.longest, first.device, threshold)
        self.members = [(one, order_of(one.classes.labels, first.classes.labels)) for one in members]

    def chances(self, texts: Sequence[str]) -> Float[np.ndarray, "n v"]:
        return np.mean([one.chances(texts)[:, order] for one, order in self.members], axis=0)


def together(folder: Path, first: Predictor, others: Mapping[Path, Predictor]) -> Predictor:
    """One predictor of several that give the same labels to the same files."""
    for path, other in others.items():
        if type(other) is not type(first):
            raise UsageError(f"{path}: its task is not that of {folder}; --with takes another model of the same task")
        if what_of(other) != what_of(first):
            raise UsageError(f"{path}: its labels, or the form of its files, are not those of {folder}")
    if isinstance(first, Tagger):
        return Taggers([first, *(other for other in others.values() if isinstance(other, Tagger))])
    if isinstance(first, Classifier):
        return Classifiers([first, *(other for other in others.values() if isinstance(other, Classifier))])
    raise UsageError(f"{folder}: --with is for translators, taggers and classifiers; this is a language model")


def what_of(model: Predictor) -> object:
    """What must be the same of all."""
    if isinstance(model, Tagger):
        return replace(model.labelling, labels=tuple(sorted(model.labelling.labels)))
    return replace(model.classes, labels=tuple(sorted(model.classes.labels))) if isinstance(model, Classifier) else None
