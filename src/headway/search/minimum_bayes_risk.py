"""Minimum Bayes risk: the output that the others agree with most (Eikema and Aziz 2022)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from headway.search.base import Hypothesis

CHARACTERS, BETA = 6, 2  # the usual chrF: up to six characters, recall counts twice as much

# Candidates and references to how well each pair agrees, [c r].
Utility = Callable[[Sequence[str], Sequence[str]], Float[np.ndarray, "c r"]]


def rerank_by_risk(
    hypotheses: Sequence[Hypothesis],
    text: Callable[[list[int]], str],
    support: Sequence[Hypothesis] = (),
    utility: Utility | None = None,
) -> list[Hypothesis]:
    """Outputs by their mean utility against `support`, samples as a rule; without it against one another.

    The utility (chrF unless given) becomes the score. Texts that occur twice in the support weigh twice;
    among the hypotheses the first stands for all.
    """
    said = [text(one.ids) for one in hypotheses]
    distinct = {words: place for place, words in reversed(list(enumerate(said)))}
    places = sorted(distinct.values())
    references = [text(one.ids) for one in support] or said
    values = (utility or chrf)([said[place] for place in places], references).mean(axis=1)
    scored = [hypotheses[place]._replace(score=float(value)) for place, value in zip(places, values, strict=True)]
    return sorted(scored, key=lambda one: -one.score)


def chrf(candidates: Sequence[str], references: Sequence[str]) -> Float[np.ndarray, "c r"]:
    """Sentence chrF of every pair, from 0 to 100 (Popović 2015): each text is counted once for all its pairs."""
    precision = recall = orders = np.zeros((len(candidates), len(references)))
    for order in range(1, CHARACTERS + 1):
        counts = ngram_counts([*candidates, *references], order)
        said, meant = counts[: len(candidates)], counts[len(candidates) :]
        matches = np.minimum(said[:, None], meant[None]).sum(axis=-1)
        of_said, of_meant = said.sum(axis=-1)[:, None], meant.sum(axis=-1)[None]
        precision = precision + matches / np.maximum(of_said, 1)
        recall = recall + matches / np.maximum(of_meant, 1)
        orders = orders + ((of_said > 0) & (of_meant > 0))
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    both = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(both > 0, both, 1)


def ngram_counts(texts: Sequence[str], order: int) -> Float[np.ndarray, "n g"]:
    """How often each text holds each run of characters, spaces left out; a column for every run that occurs."""
    joined = ["".join(text.split()) for text in texts]
    counted = [Counter(text[i : i + order] for i in range(len(text) - order + 1)) for text in joined]
    columns = {run: place for place, run in enumerate(sorted(set().union(*counted)))}
    table = np.zeros((len(texts), len(columns)))
    for row, counter in zip(table, counted, strict=True):
        row[[columns[run] for run in counter]] = list(counter.values())
    return table
