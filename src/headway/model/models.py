"""The models: parts put together. `forward` trains; `start` and `step` serve search, which holds all state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.blocks import MakeState, TokenInfo, positions_of
from headway.model.decoders.base import DecoderLayer, DecoderState
from headway.model.decoders.transformer import CausalTransformer, TransformerDecoder, transformer_of
from headway.model.dropout import Dropout
from headway.model.encoded import NO_SOURCE, EncodedSource, Memory
from headway.model.inputs import Embedded, InputLayer, SourceBatch, TokenEmbedding
from headway.model.losses import Loss
from headway.model.mask import Mask
from headway.model.outputs import OutputLayer
from headway.model.stacks import Encoder
from headway.model.states import Growing

Ids = Int[Tensor, "b t"]
Logits = Float[Tensor, "b t v"]


class EncoderDecoder(nn.Module):
    """The Transformer of the paper: it reads a source and writes a target."""

    def __init__(
        self,
        embeddings: tuple[InputLayer, TokenEmbedding],
        encoder: Encoder,
        decoder: DecoderLayer,
        head: OutputLayer,
        reads: Sequence[int],
    ) -> None:
        super().__init__()
        self.source_embedding, self.target_embedding = embeddings
        self.encoder, self.decoder, self.head = encoder, decoder, head
        self.reads = tuple(reads)  # which encoder layer each decoder layer attends to

    @property
    def transformer(self) -> TransformerDecoder:
        """The decoder, for code that must know its layers. A decoder of another kind is refused."""
        return transformer_of(self.decoder)

    def encode(self, source: SourceBatch) -> EncodedSource:
        """Read the source once."""
        embedded: Embedded = self.source_embedding(source)
        pos = positions_of(embedded.vectors)
        info = TokenInfo(pos, Mask(keys=embedded.real), embedded.real)
        outputs = self.encoder.every_layer(embedded.vectors, info)
        memories = {
            layer: Memory(self.encoder.normalise(outputs[layer], info.real), pos, info.mask)
            for layer in set(self.reads)
        }
        return EncodedSource(source, [memories[layer] for layer in self.reads])

    def decode(self, source: SourceBatch, target: Ids) -> tuple[Float[Tensor, "b t d"], EncodedSource]:
        """Teacher forcing: return the hidden vectors of all positions of the target, and the encoded source."""
        embedded = self.target_embedding(target)
        encoded = self.encode(source)
        return self.decoder(embedded, encoded), encoded

    def hidden(self, source: SourceBatch, target: Ids) -> Float[Tensor, "b t d"]:
        return self.decode(source, target)[0]

    def forward(self, source: SourceBatch, target: Ids) -> Logits:
        return self.head(*self.decode(source, target))

    def loss(self, source: SourceBatch, target: Ids, labels: Ids, label_smoothing: float, r_drop: float = 0.0) -> Loss:
        """Return the loss of `labels`, the next tokens of `target`; see `OutputLayer.loss`."""
        hidden, encoded = self.decode(source, target)
        return self.head.loss(hidden, encoded, labels, label_smoothing, r_drop)

    def start(self, source: SourceBatch, make_state: MakeState = Growing) -> DecoderState:
        """Encode the source and return the state of a search before its first token, one hypothesis a sentence."""
        return self.decoder.start(self.encode(source), make_state)

    def feed(self, tokens: Int[Tensor, "n t"], state: DecoderState) -> Logits:
        """Append tokens to every hypothesis and return the scores of the token after each."""
        hidden = self.decoder.step(self.target_embedding.embed(tokens), state)
        return self.head(hidden, state.source)

    def step(self, last: Int[Tensor, "n"], state: DecoderState) -> Float[Tensor, "n v"]:
        """Append one token to every hypothesis and return the scores of the next."""
        return self.feed(last[:, None], state)[:, -1]


class LanguageModel(nn.Module):
    """A decoder without a source: it continues a text. With `memory` it is Transformer-XL."""

    def __init__(
        self, embedding: TokenEmbedding, stack: DecoderLayer, head: OutputLayer, dropout: Dropout, memory: int = 0
    ) -> None:
        super().__init__()
        self.embedding, self.stack, self.head, self.dropout, self.memory = embedding, stack, head, dropout, memory

    @property
    def transformer(self) -> TransformerDecoder:
        """The decoder, for code that must know its layers. A decoder of another kind is refused."""
        return transformer_of(self.stack)

    @property
    def vocabulary(self) -> int:
        return self.embedding.vocabulary

    def hidden(
        self, tokens: Ids, memory: Sequence[Tensor] = (), memory_lengths: Int[Tensor, "b"] | None = None
    ) -> tuple[Float[Tensor, "b t d"], list[Float[Tensor, "b m d"]]]:
        """Return the vectors of this segment, and the memory of the next segment; see `CausalTransformer.segment`."""
        embedded = self.embedding(tokens)
        if not self.memory:
            return self.dropout(self.stack(embedded, NO_SOURCE)), []
        stack = cast("CausalTransformer", self.stack)
        hidden, newest = stack.segment(embedded, memory, memory_lengths, self.memory)
        return self.dropout(hidden), newest

    def forward(self, tokens: Ids) -> Logits:
        return self.head(self.hidden(tokens)[0], NO_SOURCE)

    def start(self, rows: int, make_state: MakeState = Growing) -> DecoderState:
        """Return the state before the first token. Any number of rows may follow."""
        return self.stack.start(NO_SOURCE, make_state)

    def feed(self, tokens: Int[Tensor, "n t"], state: DecoderState) -> Logits:
        """Append tokens to every row and return the scores of the token after each."""
        return self.head(self.stack.step(self.embedding.embed(tokens), state), NO_SOURCE)

    def step(self, last: Int[Tensor, "n"], state: DecoderState) -> Float[Tensor, "n v"]:
        """Append one token to every row and return the scores of the next."""
        return self.feed(last[:, None], state)[:, -1]


class TextEncoder(nn.Module):
    """A stack that sees the whole text: a vector for each token, for tagging and classification."""

    def __init__(self, embedding: InputLayer, stack: Encoder) -> None:
        super().__init__()
        self.embedding, self.stack = embedding, stack

    def encode(self, embedded: Embedded) -> Float[Tensor, "b t d"]:
        info = TokenInfo(positions_of(embedded.vectors), Mask(keys=embedded.real), embedded.real)
        return self.stack(embedded.vectors, info)

    def forward(self, batch: SourceBatch) -> Float[Tensor, "b s d"]:
        return self.encode(self.embedding(batch))
