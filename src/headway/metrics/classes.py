"""Metrics of text classification: accuracy, F1, average precision, confusion matrix.

Ours rather than scikit-learn's, which the tests compare with: it would be a large dependency for these formulas.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from headway.metrics.score import Score, Scores

Chosen = Bool[np.ndarray, "n v"]
Chances = Float[np.ndarray, "n v"]
THRESHOLDS = np.arange(0.05, 0.96, 0.05)


def f1_by_label(said: Chosen, meant: Chosen) -> Float[np.ndarray, "v"]:
    """Return 2 TP / (2 TP + FP + FN) of each label; 0 for a label that neither occurs nor is predicted."""
    both = said.sum(axis=0) + meant.sum(axis=0)
    return 2 * (said & meant).sum(axis=0) / np.maximum(1, both)


def macro_f1(said: Chosen, meant: Chosen) -> float:
    """Return the mean F1 of all labels that occur or are predicted."""
    used = said.any(axis=0) | meant.any(axis=0)
    return float(f1_by_label(said, meant)[used].mean()) if used.any() else 0.0


def micro_f1(said: Chosen, meant: Chosen) -> float:
    """Return the F1 of all decisions together, which is the accuracy if every text has one label."""
    both = said.sum() + meant.sum()
    return float(2 * (said & meant).sum() / max(1, both))


def average_precision(chances: Float[np.ndarray, "n"], meant: Bool[np.ndarray, "n"]) -> float:
    """Return the mean precision at each positive text, in descending order of probability; ties count together.

    If all probabilities are NaN, the label could not be predicted, and the result is 0.
    """
    if np.isnan(chances).all():
        return 0.0
    order = np.argsort(-chances, kind="stable")
    sorted_chances, right = chances[order], np.cumsum(meant[order])
    last = np.append(np.flatnonzero(np.diff(sorted_chances)), len(order) - 1)  # the last index of each group of ties
    precision, gain = right[last] / (last + 1), np.diff(right[last], prepend=0)
    return float((precision * gain).sum() / max(1, meant.sum()))


def mean_average_precision(chances: Chances, meant: Chosen) -> float:
    """Return the mean average precision of all labels that occur."""
    occurring = np.flatnonzero(meant.any(axis=0))
    found = [average_precision(chances[:, label], meant[:, label]) for label in occurring]
    return float(np.mean(found)) if found else 0.0


def best_threshold(chances: Chances, meant: Chosen) -> float:
    """Return the threshold of THRESHOLDS with the best macro F1."""
    scores = [macro_f1(chances >= threshold, meant) for threshold in THRESHOLDS]
    return round(float(THRESHOLDS[int(np.argmax(scores))]), 2)


def confusion(said: Int[np.ndarray, "n"], meant: Int[np.ndarray, "n"], labels: int) -> Int[np.ndarray, "v v"]:
    """Return the confusion matrix: how often the label of the row was predicted as the label of the column."""
    table = np.zeros((labels, labels), np.int64)
    np.add.at(table, (meant, said), 1)
    return table


def class_scores(said: Chosen, meant: Chosen, chances: Chances) -> Scores:
    """Return all scores in per cent. `accuracy` is the share of texts whose labels are all correct."""
    exact = (said == meant).all(axis=1).mean() if len(said) else 0.0
    return Scores(
        {
            "accuracy": Score(100 * float(exact), signature="texts with exactly the correct labels"),
            "f1": Score(100 * macro_f1(said, meant), signature="macro, labels that occur or are predicted"),
            "micro-f1": Score(100 * micro_f1(said, meant), signature="micro, all decisions"),
            "ap": Score(100 * mean_average_precision(chances, meant), signature="average precision, mean over labels"),
        }
    )
