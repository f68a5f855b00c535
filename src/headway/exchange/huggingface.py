"""Weights and designs in Hugging Face's layouts, both ways. No files, no network.

`from_x(state, config)` gives a design and all the tensors its model loads; `to_x(design, tensors)` gives back a
state dict and the contents of config.json. What a layout cannot say is refused by name.
"""

from headway.exchange.gpt2 import from_gpt2, to_gpt2
from headway.exchange.layout import pick_pieces
from headway.exchange.llama import from_llama, to_llama
from headway.exchange.marian import from_marian, to_marian

__all__ = ["from_gpt2", "from_llama", "from_marian", "pick_pieces", "to_gpt2", "to_llama", "to_marian"]
