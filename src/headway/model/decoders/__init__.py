"""How outputs are produced from a source. A new decoder is one file here and one word in the union."""

from headway.model.decoders.base import DecoderLayer, DecoderState
from headway.model.decoders.transformer import Transformer, TransformerDecoder

Decoder = Transformer  # the next member: Transformer | Rnn

__all__ = ["Decoder", "DecoderLayer", "DecoderState", "Transformer", "TransformerDecoder"]
