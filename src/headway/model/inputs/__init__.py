"""How a model reads its input. A new kind of input is one file here and one word in the union."""

from headway.model.inputs.base import Embedded, Features, InputLayer, SourceBatch, lengths_of
from headway.model.inputs.token_embedding import BigramEmbedding, TokenEmbedding, Tokens, real_tokens

Input = Tokens  # the next member: Tokens | Frames

__all__ = [
    "BigramEmbedding",
    "Embedded",
    "Features",
    "Input",
    "InputLayer",
    "SourceBatch",
    "TokenEmbedding",
    "Tokens",
    "lengths_of",
    "real_tokens",
]
