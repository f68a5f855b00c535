"""Labelled bracket F1 of constituency trees, by the rules of evalb with its usual parameters (COLLINS.prm).

Ours because evalb is a C program for files of trees; this metric is resampled and signed like sacreBLEU's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from sacrebleu.metrics.base import Score as SacreScore

from headway.errors import UsageError
from headway.metrics.own_metrics import Counts, Ratio
from headway.text.trees import Bracket, Tree, read_tree

ROOTS = {"TOP", "ROOT", "S1", ""}  # every tree has one, so they are not counted
SAME = {"PRT": "ADVP"}  # labels that evalb treats as equal
PUNCTUATION = {",", ":", "``", "''", "."}  # leaves that do not count towards the extent of a constituent


class BracketF1(Ratio):
    """F1 of labelled constituents: twice those that both trees have over the sum of those of either tree.

    An output that is not a tree has no constituents. If its number of leaves is wrong, none of them is correct.
    """

    def __init__(self) -> None:
        super().__init__("brackets", "constituent")

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        return [count_brackets(said, meant) for said, meant in zip(hypotheses, references, strict=True)]

    def _compute_score_from_stats(self, stats: Sequence[float] | np.ndarray) -> SacreScore:
        """Return the score; 100 if neither references nor outputs have constituents."""
        return super()._compute_score_from_stats(stats if stats[1] > 0 else [1.0, 1.0])


def count_brackets(said: str, meant: str) -> list[float]:
    """Return twice the matching constituents, and the sum of the constituents of both trees."""
    right, found = read_tree(meant), read_tree(said) or Tree([], [])
    if right is None:
        raise UsageError(f"brackets: the reference {meant[:60]!r} is not a tree; write trees such as (NP XX XX )NP")
    counted = [leaf not in PUNCTUATION for leaf in right.leaves]
    wanted = constituents(right, counted)
    alike = len(found.leaves) == len(right.leaves)
    offered = constituents(found, counted if alike else [True] * len(found.leaves))
    both = (wanted & offered).total() if alike else 0
    return [2.0 * both, float(wanted.total() + offered.total())]


def constituents(tree: Tree, counted: Sequence[bool]) -> Counter[Bracket]:
    """Return the constituents, without roots, empty ones and function tags (NP-SBJ becomes NP)."""
    place = [0, *accumulate(counted)]
    named = (Bracket(plain_label(label), place[start], place[end]) for label, start, end in tree.brackets)
    return Counter(one for one in named if one.label not in ROOTS and one.start < one.end)


def plain_label(label: str) -> str:
    """Return the label without function tags and indices, in evalb's equivalence class."""
    plain = re.split("[-=]", label)[0]
    return SAME.get(plain, plain)
