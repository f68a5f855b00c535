"""The models: parts put together. `forward` trains; `start` and `step` serve search, which holds all state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.blocks import BlockState, Place, Source
from headway.model.dropout import Dropout
from headway.model.embedding import Embedding
from headway.model.heads.vocabulary import VocabularyHead
from headway.model.mask import Mask
from headway.model.stacks import Decoder, Encoder
from headway.model.states import Growing, Once, State
from headway.text.vocabulary import PAD

Ids = Int[Tensor, "b t"]
Logits = Float[Tensor, "b t v"]


def positions_of(ids: Tensor, start: int = 0) -> Int[Tensor, "1 t"]:
    return torch.arange(start, start + ids.size(1), device=ids.device)[None]


@dataclass
class Rows:
    """Hypotheses being written: what the layers remember, what they read, and where each row stands.

    There may be several rows to a sentence (a beam); `sources` are kept once for all of them.
    """

    states: list[BlockState]
    sources: list[Source]
    pos: Int[Tensor, "#n 1"]
    mask: Mask  # what the newest token may see of what is remembered
    beam: int = 1  # rows to a sentence

    def select(self, rows: Int[Tensor, "n"]) -> None:
        """Keep these rows: repeat, reorder or drop. Every row then has its own copy of the source."""
        self.select_written(rows)
        self.select_sources(rows // self.beam)
        self.beam = 1

    def reorder(self, rows: Int[Tensor, "n"]) -> None:
        """Like select, where each row's sentence stays in its place: the source need not move."""
        self.select_written(rows)
        self.beam = len(rows) // len(self.sources[0].x) if self.sources else 1

    def keep(self, sentences: Int[Tensor, "m"], beam: int) -> None:
        """Drop finished sentences with all their rows."""
        self.select_written((sentences[:, None] * beam + torch.arange(beam, device=sentences.device)).flatten())
        self.select_sources(sentences)

    def select_written(self, rows: Int[Tensor, "n"]) -> None:
        for state in self.states:
            state.own.select(rows)
        self.pos = self.pos if len(self.pos) == 1 else self.pos[rows]

    def select_sources(self, sentences: Int[Tensor, "m"]) -> None:
        """Layers that share a view of the source go on sharing it."""
        for state in self.states:
            state.source.select(sentences)
        views = {id(source): source for source in self.sources}
        selected = {name: source.select(sentences) for name, source in views.items()}
        self.sources = [selected[id(source)] for source in self.sources]


class EncoderDecoder(nn.Module):
    """The Transformer of the paper: read a source, write a target."""

    def __init__(
        self,
        embeddings: tuple[Embedding, Embedding],
        encoder: Encoder,
        decoder: Decoder,
        head: VocabularyHead,
        reads: Sequence[int],
    ) -> None:
        super().__init__()
        self.source_embedding, self.target_embedding = embeddings
        self.encoder, self.decoder, self.head = encoder, decoder, head
        self.reads = tuple(reads)  # which encoder layer each decoder layer looks at

    def encode(self, source: Int[Tensor, "b s"]) -> list[Source]:
        """Read the source once; one view of it for each decoder layer."""
        real, pos = source != PAD, positions_of(source)
        here = Place(pos, Mask(keys=real), real)
        outputs = self.encoder.every_layer(self.source_embedding(source), here)
        views = {layer: Source(self.encoder.leave(outputs[layer], real), pos, here.mask) for layer in set(self.reads)}
        return [views[layer] for layer in self.reads]

    def hidden(self, source: Int[Tensor, "b s"], target: Ids) -> Float[Tensor, "b t d"]:
        """Teacher forcing: every position of the target at once, each seeing only its past.

        Padding stands on the right, so the causal mask already hides it from every real token.
        """
        here = Place(positions_of(target), Mask(causal=True), target != PAD)
        return self.decoder(self.target_embedding(target), self.encode(source), here)

    def forward(self, source: Int[Tensor, "b s"], target: Ids) -> Logits:
        return self.head(self.hidden(source, target))

    def start(self, source: Int[Tensor, "b s"], room: Callable[[], State] = Growing) -> Rows:
        """Encode, and make room for what will be written: one row a sentence."""
        states = self.decoder.remember(room)
        for state in states:
            state.source = Once()
        beginning = torch.zeros(1, 1, dtype=torch.long, device=source.device)
        return Rows(states, self.encode(source), beginning, room().step_mask)

    def feed(self, tokens: Int[Tensor, "n t"], rows: Rows) -> Logits:
        """Write tokens at the end of every row; the scores of what may follow each."""
        length = tokens.size(1)
        pos = rows.pos + torch.arange(length, device=tokens.device) if length > 1 else rows.pos
        here = Place(pos, rows.mask if length == 1 else Mask(causal=True))
        hidden = self.decoder(self.target_embedding(tokens), rows.sources, here, rows.states)
        rows.pos = rows.pos + length
        return self.head(hidden)

    def step(self, last: Int[Tensor, "n"], rows: Rows) -> Float[Tensor, "n v"]:
        """The scores of the next piece, after each row's last one."""
        return self.feed(last[:, None], rows)[:, -1]


class LanguageModel(nn.Module):
    """One stack that looks back only: text goes on. With `memory` it is Transformer-XL."""

    def __init__(
        self, embedding: Embedding, stack: Encoder, head: VocabularyHead, dropout: Dropout, memory: int = 0
    ) -> None:
        super().__init__()
        self.embedding, self.stack, self.head, self.dropout, self.memory = embedding, stack, head, dropout, memory

    @property
    def vocabulary(self) -> int:
        return self.embedding.num_embeddings

    def hidden(
        self, tokens: Ids, memory: Sequence[Tensor] = (), known: Int[Tensor, "b"] | None = None
    ) -> tuple[Float[Tensor, "b t d"], list[Float[Tensor, "b m d"]]]:
        """The vectors of this segment, and what every layer should remember of it for the next.

        No gradient flows into the memory; its positions are the ones just before this segment. `known`: only so
        many of each row's newest remembered tokens are real.
        """
        pos, states = positions_of(tokens), self.stack.forget()
        before = [Source(m, positions_of(m, -m.size(1)), Mask()) for m in memory]
        places = [*(source.pos for source in before[:1]), pos]
        seen = None if known is None else torch.cat(places, dim=1) >= -known[:, None]
        here = Place(pos, Mask(keys=seen, causal=True), tokens != PAD)
        hidden = self.stack(self.embedding(tokens), here, states, before)
        looked_at = [state.looked_at for state in states if state.looked_at is not None]
        return self.dropout(hidden), self.newest(memory, looked_at) if self.memory else []

    def newest(self, older: Sequence[Tensor], looked_at: Sequence[Tensor]) -> list[Float[Tensor, "b m d"]]:
        """Of each layer's vectors the last, as many as are remembered."""
        joined = [torch.cat(both, dim=1) for both in zip(older, looked_at, strict=True)] if older else looked_at
        return [x[:, max(0, x.size(1) - self.memory) :].detach() for x in joined]

    def forward(self, tokens: Ids) -> Logits:
        return self.head(self.hidden(tokens)[0])

    def start(self, rows: int, room: Callable[[], State] = Growing) -> Rows:
        beginning = torch.zeros(1, 1, dtype=torch.long, device=self.head.weight.device)
        return Rows(self.stack.remember(room), [], beginning, room().step_mask)

    def feed(self, tokens: Int[Tensor, "n t"], rows: Rows) -> Logits:
        length = tokens.size(1)
        pos = rows.pos + torch.arange(length, device=tokens.device) if length > 1 else rows.pos
        here = Place(pos, rows.mask if length == 1 else Mask(causal=True))
        hidden = self.stack(self.embedding(tokens), here, rows.states)
        rows.pos = rows.pos + length
        return self.head(hidden)

    def step(self, last: Int[Tensor, "n"], rows: Rows) -> Float[Tensor, "n v"]:
        return self.feed(last[:, None], rows)[:, -1]


class TextEncoder(nn.Module):
    """One stack that looks everywhere: a vector for each token, for tagging and classification."""

    def __init__(self, embedding: Embedding, stack: Encoder) -> None:
        super().__init__()
        self.embedding, self.stack = embedding, stack

    def forward(self, tokens: Ids) -> Float[Tensor, "b t d"]:
        real = tokens != PAD
        return self.stack(self.embedding(tokens), Place(positions_of(tokens), Mask(keys=real), real))
