"""Several classifiers that decide together by their mean probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from headway.tasks.classification.classifier import Classifier
from headway.tasks.label_reports import order_of


class Classifiers(Classifier):
    """The mean of the chances, and of the thresholds. Each reads pieces of its own."""

    def __init__(self, members: Sequence[Classifier]) -> None:
        first, threshold = members[0], float(np.mean([member.threshold for member in members]))
        super().__init__(first.model, first.tokenizer, first.classes, first.longest, first.device, threshold)
        self.members = [(one, order_of(one.classes.labels, first.classes.labels)) for one in members]

    def chances(self, texts: Sequence[str]) -> Float[np.ndarray, "n v"]:
        return np.mean([one.chances(texts)[:, order] for one, order in self.members], axis=0)
