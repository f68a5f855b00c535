"""Labelled bracket F1 of trees, by the rules of evalb with its usual parameters (COLLINS.prm)."""

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

ROOTS = {"TOP", "ROOT", "S1", ""}  # every tree has one: nothing to find
SAME = {"PRT": "ADVP"}
PUNCTUATION = {",", ":", "``", "''", "."}  # leaves that no constituent is measured by


class BracketF1(Ratio):
    """Twice the constituents that both trees have, over those of the one and of the other.

    An output that is no tree has no constituents; one with another number of leaves has none that are right.
    """

    def __init__(self) -> None:
        super().__init__("brackets", "constituent")

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        return [count_brackets(said, meant) for said, meant in zip(hypotheses, references, strict=True)]

    def _compute_score_from_stats(self, stats: Sequence[float] | np.ndarray) -> SacreScore:
        """Where there is nothing to find, nothing is the right answer."""
        return super()._compute_score_from_stats(stats if stats[1] > 0 else [1.0, 1.0])


def count_brackets(said: str, meant: str) -> list[float]:
    right, found = read_tree(meant), read_tree(said) or Tree([], [])
    if right is None:
        raise UsageError(f"brackets: the reference {meant[:60]!r} is no tree; write trees such as (NP XX XX )NP")
    counted = [leaf not in PUNCTUATION for leaf in right.leaves]
    wanted = constituents(right, counted)
    alike = len(found.leaves) == len(right.leaves)
    offered = constituents(found, counted if alike else [True] * len(found.leaves))
    both = (wanted & offered).total() if alike else 0
    return [2.0 * both, float(wanted.total() + offered.total())]


def constituents(tree: Tree, counted: Sequence[bool]) -> Counter[Bracket]:
    """Brackets over the leaves that count, without roots, empty ones and function tags (NP-SBJ is NP)."""
    place = [0, *accumulate(counted)]
    named = (Bracket(plain_label(label), place[start], place[end]) for label, start, end in tree.brackets)
    return Counter(one for one in named if one.label not in ROOTS and one.start < one.end)


def plain_label(label: str) -> str:
    plain = re.split("[-=]", label)[0]
    return SAME.get(plain, plain)
