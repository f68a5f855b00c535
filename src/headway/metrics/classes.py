"""Labels of whole texts against the right ones: accuracy, F1, average precision, confusion."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from headway.metrics.score import Score, Scores

Chosen = Bool[np.ndarray, "n v"]
Chances = Float[np.ndarray, "n v"]
THRESHOLDS = np.arange(0.05, 0.96, 0.05)


def f1_by_label(said: Chosen, meant: Chosen) -> Float[np.ndarray, "v"]:
    """2 TP / (2 TP + FP + FN); 0 where a label neither occurs nor is said."""
    both = said.sum(axis=0) + meant.sum(axis=0)
    return 2 * (said & meant).sum(axis=0) / np.maximum(1, both)


def macro_f1(said: Chosen, meant: Chosen) -> float:
    """The mean over all labels that occur or are said."""
    used = said.any(axis=0) | meant.any(axis=0)
    return float(f1_by_label(said, meant)[used].mean()) if used.any() else 0.0


def micro_f1(said: Chosen, meant: Chosen) -> float:
    """Of all decisions together; where every text has one label it is the accuracy."""
    both = said.sum() + meant.sum()
    return float(2 * (said & meant).sum() / max(1, both))


def average_precision(chances: Float[np.ndarray, "n"], meant: Bool[np.ndarray, "n"]) -> float:
    """The mean of the precision at every right text, from the surest down; equal chances count together.

    Chances that are not numbers belong to a label that nobody could have said: none of its texts is found.
    """
    if np.isnan(chances).all():
        return 0.0
    order = np.argsort(-chances, kind="stable")
    sorted_chances, right = chances[order], np.cumsum(meant[order])
    last = np.append(np.flatnonzero(np.diff(sorted_chances)), len(order) - 1)  # of each group of equals
    precision, gain = right[last] / (last + 1), np.diff(right[last], prepend=0)
    return float((precision * gain).sum() / max(1, meant.sum()))


def mean_average_precision(chances: Chances, meant: Chosen) -> float:
    """Over the labels that occur."""
    occurring = np.flatnonzero(meant.any(axis=0))
    found = [average_precision(chances[:, label], meant[:, label]) for label in occurring]
    return float(np.mean(found)) if found else 0.0


def best_threshold(chances: Chances, meant: Chosen) -> float:
    """The one, of a few, with the best macro F1."""
    scores = [macro_f1(chances >= threshold, meant) for threshold in THRESHOLDS]
    return round(float(THRESHOLDS[int(np.argmax(scores))]), 2)


def confusion(said: Int[np.ndarray, "n"], meant: Int[np.ndarray, "n"], labels: int) -> Int[np.ndarray, "v v"]:
    """How often the row's label was taken for the column's."""
    table = np.zeros((labels, labels), np.int64)
    np.add.at(table, (meant, said), 1)
    return table


def class_scores(said: Chosen, meant: Chosen, chances: Chances) -> Scores:
    """In per cent. For one label and for many: `accuracy` is the share of texts with all labels right."""
    exact = (said == meant).all(axis=1).mean() if len(said) else 0.0
    return Scores(
        {
            "accuracy": Score(100 * float(exact), signature="texts with exactly the right labels"),
            "f1": Score(100 * macro_f1(said, meant), signature="macro, labels that occur or are said"),
            "micro-f1": Score(100 * micro_f1(said, meant), signature="micro, all decisions"),
            "ap": Score(100 * mean_average_precision(chances, meant), signature="average precision, mean over labels"),
        }
    )
