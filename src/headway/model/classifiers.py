"""Models that label texts: every word, or the whole."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.dropout import Dropout
from headway.model.heads.pooling import Pooled
from headway.model.heads.tags import TagHead
from headway.model.inputs import SourceBatch
from headway.model.letter_encoder import LetterEncoder
from headway.model.models import TextEncoder


class WordClassifier(nn.Module):
    """Scores of labels for every word, computed at the first token of the word."""

    def __init__(self, encoder: TextEncoder, letters: LetterEncoder | None, head: TagHead, dropout: nn.Module) -> None:
        super().__init__()
        self.encoder, self.letters, self.head, self.dropout = encoder, letters, head, dropout

    def forward(
        self, tokens: Int[Tensor, "b t"], first: Int[Tensor, "b w"], letters: Int[Tensor, "b w c"] | None = None
    ) -> Float[Tensor, "b w v"]:
        """`first` is the index of each word's first token; -1 where there is no word."""
        index = first.clamp(min=0)[..., None]
        embedded = self.encoder.embedding(tokens)
        if self.letters is not None and letters is not None:
            spelled = self.letters(letters) * (first >= 0)[..., None]
            x = embedded.vectors
            added = x.scatter_add(1, index.expand_as(spelled), spelled.to(x.dtype))
            embedded = embedded._replace(vectors=added)
        hidden = self.encoder.encode(embedded)
        return self.head(self.dropout(hidden.gather(1, index.expand(-1, -1, hidden.size(-1)))))


class TextClassifier(nn.Module):
    """Scores of labels for a whole text."""

    def __init__(self, encoder: TextEncoder, pooling: Pooled, width: int, labels: int, dropout: float) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.dropout, self.linear = Dropout(dropout), nn.Linear(width, labels)

    def forward(self, batch: SourceBatch) -> Float[Tensor, "b v"]:
        embedded = self.encoder.embedding(batch)
        return self.linear(self.dropout(self.pooling(self.encoder.encode(embedded), embedded.real)))
