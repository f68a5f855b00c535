"""The seam of the output distributions: hidden vectors and the source go in, scores of the next token come out."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.encoded import NO_SOURCE, EncodedSource
from headway.model.inputs import real_tokens
from headway.model.losses import Loss, exact, label_smoothed, symmetric_kl


class OutputLayer(nn.Module):
    """A distribution over the vocabulary. The loss and every search go through it."""

    weight: nn.Parameter  # the output matrix [v d], often the embedding's own

    def forward(self, hidden: Float[Tensor, "*b d"], source: EncodedSource = NO_SOURCE) -> Float[Tensor, "*b v"]:
        """Return logits, or log-probabilities, which softmax leaves as they are.

        In a search `hidden` has several rows for each sentence of the source; they stand next to each other.
        """
        raise TypeError("an output layer must say how it scores tokens")

    def loss(
        self,
        hidden: Float[Tensor, "c t d"],
        source: EncodedSource,
        labels: Int[Tensor, "b t"],
        label_smoothing: float,
        r_drop: float = 0.0,
    ) -> Loss:
        """Return the label-smoothed cross-entropy of a batch.

        With `r_drop`, `hidden` and `source` hold the batch twice, one forward pass after the other, and the
        symmetric divergence of the two is added (R-Drop).
        """
        logits = exact(self(hidden, source))
        if not r_drop:
            return label_smoothed(logits, labels, label_smoothing)
        first, second = logits.chunk(2)
        losses = [label_smoothed(each, labels, label_smoothing) for each in (first, second)]
        divergence = (symmetric_kl(first, second, lambda x: x.softmax(dim=-1)) * real_tokens(labels)).sum()
        total = (losses[0].total + losses[1].total + r_drop * divergence) / 2
        return Loss(total, (losses[0].nll + losses[1].nll) / 2, losses[0].count)
