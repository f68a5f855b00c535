"""Several taggers that decide together by their mean scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headway.data.padding import packs
from headway.model.crf import Chain, marginals, viterbi
from headway.tasks.label_reports import order_of
from headway.tasks.tagging.tagger import ROWS, TOKENS, Tagged, Tagger


class Taggers(Tagger):
    """The mean of the scores of words and of neighbours: of sequences' chances the geometric mean.

    Each reads pieces of its own. The mean of words' chances instead was worse: it forgets what stands side by side.
    """

    def __init__(self, members: Sequence[Tagger]) -> None:
        first = members[0]
        super().__init__(first.model, first.reader, first.labelling, first.device)
        self.members = [(one, order_of(one.labelling.labels, first.labelling.labels)) for one in members]
        self.whole = mean_chain([one.model.head.chain().ordered(order) for one, order in self.members])

    @torch.inference_mode()
    def tag(self, given: Sequence[Sequence[str]]) -> list[Tagged]:
        found, chain = self.scores(given), self.whole.without(self.chain)
        labels, sure = [list[int]() for _ in given], [list[float]() for _ in given]
        for pack in packs([len(words) for words in given], TOKENS, ROWS):
            if not given[pack[0]]:
                break  # the longest come first, and from here on all are empty
            lengths = torch.tensor([len(given[i]) for i in pack], device=self.device)
            scores = pad_sequence([found[i] for i in pack], batch_first=True)
            real = torch.arange(scores.size(1), device=self.device) < lengths[:, None]
            best = viterbi(scores, real, chain)
            chances = marginals(scores, real, chain).gather(-1, best[..., None])[..., 0]
            for i, row, chance in zip(pack, best.tolist(), chances.tolist(), strict=True):
                labels[i], sure[i] = row[: len(given[i])], chance[: len(given[i])]
        return self.build_predictions(given, labels, sure)

    def scores(self, given: Sequence[Sequence[str]]) -> list[Float[Tensor, "w v"]]:
        found = [[scores[:, order] for scores in one.scores(given)] for one, order in self.members]
        return [torch.stack(each).mean(dim=0) for each in zip(*found, strict=True)]


def mean_chain(chains: Sequence[Chain]) -> Chain:
    parts = [(chain.first, chain.next, chain.last) for chain in chains]
    return Chain(*(torch.stack(each).mean(dim=0).detach() for each in zip(*parts, strict=True)))
