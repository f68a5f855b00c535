"""Models that say what a text is: a label for every word, or for the whole."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.blocks import Place
from headway.model.dropout import Dropout
from headway.model.heads.pooling import Pooled
from headway.model.heads.tags import TagHead
from headway.model.letter_encoder import LetterEncoder
from headway.model.mask import Mask
from headway.model.models import TextEncoder, positions_of
from headway.text.vocabulary import PAD


class WordClassifier(nn.Module):
    """Scores of labels for every word. A word's first piece speaks for it."""

    def __init__(self, encoder: TextEncoder, letters: LetterEncoder | None, head: TagHead, dropout: nn.Module) -> None:
        super().__init__()
        self.encoder, self.letters, self.head, self.dropout = encoder, letters, head, dropout

    def forward(
        self, pieces: Int[Tensor, "b t"], first: Int[Tensor, "b w"], letters: Int[Tensor, "b w c"] | None = None
    ) -> Float[Tensor, "b w v"]:
        """`first` says where each word's first piece stands; -1 where there is no word."""
        real, place = pieces != PAD, first.clamp(min=0)[..., None]
        x = self.encoder.embedding(pieces)
        if self.letters is not None and letters is not None:
            spelled = self.letters(letters) * (first >= 0)[..., None]
            x = x.scatter_add(1, place.expand_as(spelled), spelled.to(x.dtype))
        hidden = self.encoder.stack(x, Place(positions_of(pieces), Mask(keys=real), real))
        return self.head(self.dropout(hidden.gather(1, place.expand(-1, -1, hidden.size(-1)))))


class TextClassifier(nn.Module):
    """Scores of labels for a whole text."""

    def __init__(self, encoder: TextEncoder, pooling: Pooled, width: int, labels: int, dropout: float) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.dropout, self.linear = Dropout(dropout), nn.Linear(width, labels)

    def forward(self, pieces: Int[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        return self.linear(self.dropout(self.pooling(self.encoder(pieces), pieces != PAD)))
